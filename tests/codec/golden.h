#pragma once
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json.h"
#include "codec/codec.h"

// The golden vectors of tests/data/codec (its README says where they come from).
namespace cortiq::codec {

inline std::vector<uint8_t> golden_bytes(const std::string& name) {
  std::ifstream file(std::string(CORTIQ_TEST_DATA) + "/codec/" + name, std::ios::binary);
  if (!file) throw std::runtime_error("tests/data/codec/" + name + " is missing");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

template <class T>
std::vector<T> golden_values(const std::string& name) {
  const std::vector<uint8_t> bytes = golden_bytes(name);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

inline Json golden_json(const std::string& name) {
  const std::vector<uint8_t> bytes = golden_bytes(name);
  return parse_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, name);
}

inline Shape shape_of(const Json& dims) {
  Shape shape;
  for (const auto& dim : dims) shape.dims[shape.rank++] = dim.get<uint32_t>();
  return shape;
}

}  // namespace cortiq::codec
