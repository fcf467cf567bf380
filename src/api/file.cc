#include "cmf/file.h"

#include "base/nearest.h"
#include "cmf/verify.h"
#include "convert/convert.h"
#include "cortiq/cortiq.h"

namespace cortiq {

struct CmfFile::State {
  std::shared_ptr<const cmf::File> file;
  std::vector<TensorInfo> tensors;

  const cmf::Tensor& find(std::string_view name) const {
    const cmf::Tensor* tensor = file->find(name);
    if (tensor != nullptr) return *tensor;
    std::vector<std::string_view> names;
    for (const auto& one : file->tensors()) names.push_back(one.name);
    const std::string_view near = nearest(name, names, name.size() / 2 + 1);
    fail(ErrorKind::Usage, "{}: no tensor '{}'{}", file->path(), printable(name),
         near.empty() ? "" : "; did you mean '" + printable(near) + "'?");
  }
};

CmfFile CmfFile::open(const std::string& path) {
  auto state = std::make_shared<State>();
  state->file = cmf::File::open(path);
  for (const cmf::Tensor& tensor : state->file->tensors()) {
    TensorInfo info{std::string(tensor.name), std::string(codec::name(tensor.dtype)), {}, tensor.nbytes, tensor.hash};
    info.shape.assign(tensor.shape.dims.begin(), tensor.shape.dims.begin() + tensor.shape.rank);
    state->tensors.push_back(std::move(info));
  }
  CmfFile opened;
  opened.state_ = std::move(state);
  return opened;
}

const std::vector<TensorInfo>& CmfFile::tensors() const noexcept { return state_->tensors; }

std::vector<float> CmfFile::decode(std::string_view name) const {
  return decode_rows(name, 0, state_->find(name).shape.rows());
}

std::vector<float> CmfFile::decode_rows(std::string_view name, uint64_t first, uint64_t count) const {
  const cmf::Tensor& tensor = state_->find(name);
  const uint64_t rows = tensor.shape.rows();
  if (first > rows || count > rows - first) {
    fail(ErrorKind::Usage, "tensor '{}' has {} rows; {} from {} on are not there", printable(name), rows, count, first);
  }
  std::vector<float> values(count * tensor.shape.cols());
  if (!values.empty()) {
    codec::of(tensor.dtype).decode(state_->file->payload(tensor), tensor.shape, first, count, values.data());
  }
  return values;
}

std::span<const uint8_t> CmfFile::payload(std::string_view name) const {
  return state_->file->payload(state_->find(name)).span();
}

std::string CmfFile::header() const { return std::string(state_->file->header_bytes().text()); }

std::string_view CmfFile::tokenizer() const noexcept { return state_->file->tokenizer_json(); }

Proof verify(const std::string& path) {
  ThreadPool pool(usable_threads());
  const cmf::Report report = cmf::verify(path, {}, pool, FileSystem::real(), Progress::none(), {});
  Proof proof;
  proof.valid = report.valid;
  proof.warnings = report.warnings;
  proof.signature = report.signature;
  for (const auto& one : report.problems) proof.problems.push_back({one.kind, one.where, one.message});
  return proof;
}

std::vector<std::string> convert_checkpoint(const std::string& source, const std::string& output,
                                            const std::string& quant) {
  ThreadPool pool(usable_threads());
  convert::ConvertOptions options;
  options.quant = quant;
  const convert::Plan plan = convert::make_plan(source, options, pool);
  return convert::execute(plan, output, pool, Progress::none(), {}).warnings;
}

}  // namespace cortiq
