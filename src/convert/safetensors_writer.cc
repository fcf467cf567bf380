#include "convert/safetensors_writer.h"

#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/json.h"
#include "convert/safetensors.h"

namespace cortiq::convert {

SafetensorsWriter::SafetensorsWriter(FileSystem& files, const std::string& path, std::vector<Declaration> tensors) {
  Json header = Json::object();
  for (const Declaration& one : tensors) {
    if (header.contains(one.name)) fail(ErrorKind::Usage, "tensor '{}' declared twice", one.name);
    uint64_t bytes = safetensors_bits(one.dtype) / 8;
    for (const uint64_t size : one.shape) bytes = checked_multiply(bytes, size, "size of tensor " + one.name);
    const uint64_t end = checked_add(remaining_, bytes, "size of the safetensors file");
    header[one.name] = {{"dtype", one.dtype}, {"shape", one.shape}, {"data_offsets", {remaining_, end}}};
    remaining_ = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  file_ = std::make_unique<AtomicFile>(files, path);
  file_->file().append(Bytes(reinterpret_cast<const uint8_t*>(&length), 8));
  file_->file().append(Bytes(text));
}

SafetensorsWriter::~SafetensorsWriter() = default;

void SafetensorsWriter::append(std::span<const float> values) {
  append_bytes(Bytes(reinterpret_cast<const uint8_t*>(values.data()), values.size_bytes()));
}

void SafetensorsWriter::append_bytes(Bytes bytes) {
  if (bytes.size() > remaining_) fail(ErrorKind::Usage, "more values appended to a safetensors file than declared");
  remaining_ -= bytes.size();
  file_->file().append(bytes);
}

void SafetensorsWriter::finish() {
  if (remaining_ != 0) fail(ErrorKind::Usage, "{} bytes of declared tensors were not appended", remaining_);
  file_->commit();
}

}  // namespace cortiq::convert
