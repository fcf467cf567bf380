// Says what this reader makes of files, one line of JSON each, for comparison with the Python reader
// (differential_cmf.py). Paths come in lines on standard input.
#include <cmath>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/hash64.h"
#include "cmf/file.h"
#include "cmf/sparse_index.h"
#include "cmf/verify.h"

namespace {

using cortiq::Bytes;
using cortiq::hash64;
using cortiq::Json;

std::string digest(Bytes bytes) { return cortiq::hex64(hash64(bytes)); }

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)};
}

// NaNs are all alike: which bits one has is nobody's promise.
std::string digest_values(std::vector<float> values) {
  for (float& value : values) {
    if (std::isnan(value)) value = std::nanf("");
  }
  return digest(bytes_of(values));
}

std::string digest_rows(const std::vector<std::vector<uint8_t>>& rows) {
  std::vector<uint8_t> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  return digest(bytes_of(all));
}

Json describe_tensors(const cortiq::cmf::FileSet& set) {
  Json out = Json::array();
  for (const auto& tensor : set.tensors()) {
    std::vector<float> values(tensor.shape.elements());
    if (!values.empty()) cortiq::cmf::decode_rows(set, tensor, 0, tensor.shape.rows(), values.data());
    Json shape = Json::array();
    for (uint8_t d = 0; d < tensor.shape.rank; ++d) shape.push_back(tensor.shape.dims[d]);
    out.push_back({std::string(tensor.name), cortiq::codec::name(tensor.dtype), std::move(shape), tensor.offset,
                   tensor.nbytes, cortiq::hex64(tensor.hash), tensor.shard, digest_values(std::move(values))});
  }
  return out;
}

Json describe_masks(const cortiq::cmf::File& file) {
  if (file.masks_bytes().empty()) return nullptr;
  Json out = Json::array({file.masks().default_task});
  for (const auto& mask : file.masks().masks) {
    out.push_back({mask.task_id, mask.name, mask.description, mask.priority, mask.sparsity, mask.quality,
                   mask.per_visit, mask.tail_bits, digest_rows(mask.ffn), digest_rows(mask.heads),
                   digest(bytes_of(mask.gates)), mask.has_expert_fields ? Json(digest_rows(mask.experts)) : Json()});
  }
  return out;
}

Json describe_skills(const cortiq::cmf::Header& header) {
  Json out = Json::array();
  for (const auto& skill : header.skills) {
    Json selection;
    if (skill.selection && skill.selection->unusable.empty()) {
      const auto& found = *skill.selection;
      selection = {found.metric, found.phi_layer, found.rank, digest_values(found.mean), digest_values(found.basis)};
    } else if (skill.selection) {
      selection = "unusable";
    }
    out.push_back({skill.id, skill.name, skill.layers, skill.input_mask_task, skill.base_dir_hash, skill.base_arch,
                   skill.task, std::move(selection)});
  }
  return out;
}

Json describe_index(const cortiq::cmf::File& file) {
  Json out = Json::array();
  if (file.index_bytes().empty()) return out;
  for (const auto& entry : cortiq::cmf::parse_sparse_index(file.index_bytes(), file.path())) {
    out.push_back({entry.task_id, entry.layer, digest(bytes_of(entry.groups)), digest(bytes_of(entry.heads))});
  }
  return out;
}

Json describe_chat(const cortiq::cmf::Header& header) {
  if (!header.chat) return nullptr;
  const auto maybe = [](const auto& value) { return value ? Json(*value) : Json(); };
  return {maybe(header.chat->chat_template), header.chat->eos_token_ids, maybe(header.chat->bos_token_id),
          maybe(header.chat->pad_token_id)};
}

Json describe_problems(const std::string& path, cortiq::ThreadPool& pool) {
  Json out = Json::array();
  for (const auto& problem : cortiq::cmf::verify(path, {}, pool).problems) {
    out.push_back({cortiq::name(problem.kind), problem.where});
  }
  return out;
}

Json describe_file(const std::string& path, cortiq::ThreadPool& pool) {
  const auto file = cortiq::cmf::File::open(path);
  const auto& header = file->header();
  Json out = Json::object();
  out["directory"] = cortiq::hex64(file->directory_hash());
  out["features"] = file->envelope().features;
  out["skill_file"] = file->is_skill_file();
  out["shard"] = header.shard ? Json({header.shard->no, header.shard->count}) : Json();
  out["quant_type"] = header.quant_type;
  out["chat"] = describe_chat(header);
  out["arch"] = cortiq::cmf::resolved_arch(header.arch);
  out["tokenizer"] = digest(file->vocab_bytes());
  out["masks"] = describe_masks(*file);
  out["index"] = describe_index(*file);
  out["skills"] = describe_skills(header);
  out["tensors"] = describe_tensors(*cortiq::cmf::FileSet::single(file));
  out["problems"] = describe_problems(path, pool);
  return out;
}

// The error's kind in place of a description.
template <class Describe>
Json or_kind(Json& out, Describe describe) {
  try {
    return describe();
  } catch (const cortiq::Error& error) {
    out["message"] = cortiq::printable(error.what());
    return cortiq::name(error.kind());
  }
}

}  // namespace

int main() {
  cortiq::ThreadPool pool(1);
  for (std::string path; std::getline(std::cin, path);) {
    Json out = Json::object();
    out["file"] = or_kind(out, [&] { return describe_file(path, pool); });
    if (out["file"].is_object() && !out["file"]["shard"].is_null()) {
      out["set"] = or_kind(out, [&] { return describe_tensors(*cortiq::cmf::FileSet::open(path)); });
    }
    std::cout << out.dump() << std::endl;
  }
  return 0;
}
