#include "cmf/writer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/hash64.h"
#include "cmf/copy.h"
#include "cmf/directory.h"
#include "cmf/envelope.h"
#include "cmf/lossless_json.h"
#include "cmf/new_state.h"
#include "cmf/section_hashes.h"

namespace cortiq::cmf {

struct Writer::State {
  State(FileSystem& file_system, const std::string& target_path, Contents what, std::vector<Declaration> list)
      : target(target_path), contents(std::move(what)), declarations(std::move(list)), files(file_system) {}

  std::string target;
  Contents contents;
  std::vector<Declaration> declarations;  // own the names that `tensors` look at
  FileSystem& files;

  std::vector<Tensor> tensors;
  size_t next = 0;
  std::string header_text;
  uint32_t features = 0;
  uint64_t data_off = 0;
  uint64_t data_end = 0;  // relative to data_off
  std::unique_ptr<AtomicFile> file;

  const Declaration& begin() const {
    if (next == declarations.size()) fail(ErrorKind::Usage, "{}: more payloads than declared tensors", target);
    return declarations[next];
  }

  // Where the next tensor of this size goes.
  uint64_t place(uint64_t nbytes) const { return align_up(data_end, tensor_alignment(nbytes)); }

  void placed(uint64_t offset, uint64_t nbytes, uint64_t hash) {
    Tensor& tensor = tensors[next++];
    tensor.offset = offset;
    tensor.nbytes = nbytes;
    tensor.hash = hash;
    data_end = checked_add(offset, nbytes, "data section");
  }
};

namespace {

SectionHashes hashes_of(const Contents& contents) {
  return {
      section_hash(Bytes{std::span<const uint8_t>(contents.masks)}), section_hash(Bytes(contents.tokenizer_json)), {}};
}

}  // namespace

Writer::Writer(FileSystem& files, const std::string& target, Contents contents, std::vector<Declaration> declarations)
    : state_(std::make_unique<State>(files, target, std::move(contents), std::move(declarations))) {
  State& state = *state_;
  state.tensors.resize(state.declarations.size());
  for (size_t i = 0; i < state.declarations.size(); ++i) {
    const Declaration& one = state.declarations[i];
    state.tensors[i].name = one.name;
    state.tensors[i].dtype = one.dtype;
    state.tensors[i].shape = one.shape;
    if (const auto refusal = codec::of(one.dtype).refuses(one.shape)) {
      fail(ErrorKind::Parse, "{}: tensor '{}': {} cannot have shape {}: {}", target, printable(one.name),
           codec::name(one.dtype), one.shape.text(), *refusal);
    }
  }
  set_section_hashes(state.contents.header, hashes_of(state.contents));
  NewState checked = check_new_state(target, state.contents.header, state.contents.tokenizer_json,
                                     Bytes{std::span<const uint8_t>(state.contents.masks)}, state.tensors);
  state.header_text = std::move(checked.header_text);
  state.features = checked.features;
  const uint64_t head = kEnvelopeBytes + state.header_text.size() + write_directory(state.tensors).size();
  state.data_off = align_up(head, kPage);
  state.file = std::make_unique<AtomicFile>(files, target);
}

Writer::~Writer() = default;
Writer::Writer(Writer&&) noexcept = default;

void Writer::append(Bytes payload, codec::Dtype dtype) {
  State& state = *state_;
  state.begin();
  state.tensors[state.next].dtype = state.declarations[state.next].dtype = dtype;
  append(payload);
}

void Writer::append(Bytes payload) {
  State& state = *state_;
  const Declaration& tensor = state.begin();
  with_context(fmt::format("{}: tensor '{}'", state.target, printable(tensor.name)),
               [&] { codec::of(tensor.dtype).validate(payload, tensor.shape); });
  const uint64_t offset = state.place(payload.size());
  state.file->file().write_at(checked_add(state.data_off, offset, "data section"), payload);
  state.placed(offset, payload.size(), hash64(payload));
}

void Writer::append(const FileSet& source, const Tensor& tensor, Progress& progress, const Cancellation& cancel) {
  State& state = *state_;
  const Declaration& declared = state.begin();
  if (declared.dtype != tensor.dtype || declared.shape != tensor.shape) {
    fail(ErrorKind::Usage, "{}: tensor '{}' was declared as another", state.target, printable(declared.name));
  }
  const uint64_t offset = state.place(tensor.nbytes);
  copy_payload(source, tensor, state.file->file(), checked_add(state.data_off, offset, "data section"), progress,
               cancel);
  state.placed(offset, tensor.nbytes, tensor.hash);
}

uint64_t Writer::seal(const Json* header) {
  State& state = *state_;
  if (state.next != state.tensors.size()) {
    fail(ErrorKind::Usage, "{}: {} of {} declared tensors were written", state.target, state.next,
         state.tensors.size());
  }
  const Bytes masks{std::span<const uint8_t>(state.contents.masks)}, vocab(state.contents.tokenizer_json);
  if (header) {
    Json changed = *header;
    set_section_hashes(changed, hashes_of(state.contents));
    std::string text = write_json(changed);
    if (text.size() != state.header_text.size())
      fail(ErrorKind::Usage, "{}: the header changed its length", state.target);
    parse_header(text, state.target);
    state.header_text = std::move(text);
  }
  const std::vector<uint8_t> directory = write_directory(state.tensors);
  Envelope envelope;
  envelope.features = state.features;
  envelope.header = {kEnvelopeBytes, state.header_text.size()};
  envelope.directory = {kEnvelopeBytes + state.header_text.size(), directory.size()};
  if (state.data_end != 0) envelope.data = {state.data_off, state.data_end};
  uint64_t end = checked_add(state.data_off, state.data_end, "file");
  OutputFile& file = state.file->file();
  const auto put = [&](Section& section, Bytes bytes) {
    if (bytes.empty()) return;
    section = {end, bytes.size()};
    file.write_at(end, bytes);
    end += bytes.size();
  };
  put(envelope.masks, masks);
  put(envelope.vocab, vocab);
  envelope.header_hash = hash64(Bytes(state.header_text));
  envelope.directory_hash = hash64(Bytes{std::span<const uint8_t>(directory)});

  std::vector<uint8_t> head(state.data_off);
  const auto fixed = write_envelope(envelope);
  std::copy(fixed.begin(), fixed.end(), head.begin());
  std::copy(state.header_text.begin(), state.header_text.end(), head.begin() + kEnvelopeBytes);
  std::copy(directory.begin(), directory.end(), head.begin() + static_cast<ptrdiff_t>(envelope.directory.offset));
  file.write_at(0, Bytes{std::span<const uint8_t>(head)});
  file.sync();
  return std::max<uint64_t>(end, head.size());
}

void Writer::commit() { state_->file->commit(); }

uint64_t Writer::finish() {
  const uint64_t size = seal();
  commit();
  return size;
}

std::span<const Tensor> Writer::tensors() const noexcept {
  return std::span<const Tensor>(state_->tensors).first(state_->next);
}

}  // namespace cortiq::cmf
