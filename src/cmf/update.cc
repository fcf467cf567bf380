#include "cmf/update.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/hash64.h"
#include "cmf/directory.h"
#include "cmf/envelope.h"
#include "cmf/intact.h"
#include "cmf/lossless_json.h"
#include "cmf/new_state.h"
#include "cmf/section_hashes.h"
#include "cmf/shard_header.h"
#include "cmf/signature.h"
#include "cmf/skill_tensors.h"

namespace cortiq::cmf {
namespace {

Bytes bytes_of(const std::vector<uint8_t>& bytes) { return Bytes{std::span<const uint8_t>(bytes)}; }

// A lock on what the path means now: a writer that renamed a new file into place meanwhile makes us look again.
std::unique_ptr<FileLock> lock_current(FileSystem& files, const std::string& path) {
  while (true) {
    const FileInfo before = files.info(path);
    auto lock = files.lock(path);
    const FileInfo after = files.info(path);
    if (before.inode == after.inode && before.device == after.device) return lock;
  }
}

// Where the change goes. One implementation writes behind the file's end, the other a new file.
class Target {
 public:
  virtual ~Target() = default;
  virtual void append(Bytes payload) = 0;
  virtual uint64_t finish() = 0;
};

class NewFile final : public Target {
 public:
  NewFile(FileSystem& files, const std::string& output, const FileSet& model, std::span<const Tensor> kept, Json header,
          Change change, Progress& progress, const Cancellation& cancel)
      : writer_(files, output, contents(model, std::move(header), change), declarations(kept, change)) {
    uint64_t total = 0;
    for (const Tensor& tensor : kept) total += tensor.nbytes;
    progress.begin("copy", total);
    for (const Tensor& tensor : kept) writer_.append(model, tensor, progress, cancel);
    progress.end();
  }
  void append(Bytes payload) override { writer_.append(payload); }
  uint64_t finish() override { return writer_.finish(); }

 private:
  static Contents contents(const FileSet& model, Json header, Change& change) {
    const Bytes masks = model.first().masks_bytes();
    return {std::move(header), std::string(model.first().tokenizer_json()),
            change.masks ? std::move(*change.masks) : std::vector<uint8_t>(masks.span().begin(), masks.span().end())};
  }
  static std::vector<Declaration> declarations(std::span<const Tensor> kept, Change& change) {
    std::vector<Declaration> out;
    for (const Tensor& tensor : kept) out.push_back({std::string(tensor.name), tensor.dtype, tensor.shape});
    std::move(change.add.begin(), change.add.end(), std::back_inserter(out));
    return out;
  }
  Writer writer_;
};

class InPlace final : public Target {
 public:
  InPlace(FileSystem& files, const File& file, std::vector<Tensor> kept, Json header, Change change)
      : path_(file.path()),
        envelope_(file.envelope()),
        header_(std::move(header)),
        tensors_(std::move(kept)),
        added_(std::move(change.add)),
        masks_(std::move(change.masks)),
        next_(tensors_.size()) {
    for (const Declaration& one : added_) {
      if (const auto refusal = codec::of(one.dtype).refuses(one.shape)) {
        fail(ErrorKind::Parse, "{}: tensor '{}': {} cannot have shape {}: {}", path_, printable(one.name),
             codec::name(one.dtype), one.shape.text(), *refusal);
      }
      Tensor& tensor = tensors_.emplace_back();
      tensor.name = one.name;
      tensor.dtype = one.dtype;
      tensor.shape = one.shape;
    }
    // What stays keeps its recorded hash; what had none gets one.
    SectionHashes hashes = file.header().section_hashes;
    if (!hashes.vocab) hashes.vocab = section_hash(file.vocab_bytes());
    if (masks_) {
      hashes.masks = section_hash(bytes_of(*masks_));
      hashes.index.reset();
      envelope_.index = {};
    } else if (!hashes.masks) {
      hashes.masks = section_hash(file.masks_bytes());
    }
    set_section_hashes(header_, hashes);
    NewState checked = check_new_state(path_, header_, "", masks_ ? bytes_of(*masks_) : file.masks_bytes(), tensors_);
    header_text_ = std::move(checked.header_text);
    envelope_.features = checked.features;
    write_directory(tensors_);  // the limits of names

    file_ = files.open_for_update(path_);
    end_ = file_->size();
    if (envelope_.data.length == 0) envelope_.data.offset = align_up(end_, kPage);
  }

  void append(Bytes payload) override {
    if (next_ == tensors_.size()) fail(ErrorKind::Usage, "{}: more payloads than declared tensors", path_);
    Tensor& tensor = tensors_[next_];
    with_context(fmt::format("{}: tensor '{}'", path_, printable(tensor.name)),
                 [&] { codec::of(tensor.dtype).validate(payload, tensor.shape); });
    const uint64_t data_off = envelope_.data.offset;
    tensor.offset = align_up(end_ - std::min(end_, data_off), tensor_alignment(payload.size()));
    tensor.nbytes = payload.size();
    tensor.hash = hash64(payload);
    ++next_;
    if (payload.empty()) {  // takes no place, and must not make the data section longer than it is
      tensor.offset = 0;
      return;
    }
    put(checked_add(data_off, tensor.offset, "data section"), payload);
    envelope_.data.length = tensor.offset + tensor.nbytes;
  }

  uint64_t finish() override {
    if (next_ != tensors_.size())
      fail(ErrorKind::Usage, "{}: {} declared tensors are missing", path_, tensors_.size() - next_);
    if (masks_) envelope_.masks = masks_->empty() ? Section() : put_section(bytes_of(*masks_));
    envelope_.header = put_section(Bytes(header_text_));
    const std::vector<uint8_t> directory = write_directory(tensors_);
    envelope_.directory = put_section(bytes_of(directory));
    envelope_.header_hash = hash64(Bytes(header_text_));
    envelope_.directory_hash = hash64(bytes_of(directory));
    if (envelope_.data.length == 0) envelope_.data = {};
    // FORMAT_FACTS §14: everything new is on the disk before the one write that makes it the state.
    file_->sync();
    constexpr uint64_t kFirst = 0x0C;  // magic, version and flags stay
    const auto head = write_envelope(envelope_);
    file_->write_at(kFirst, Bytes(head.data() + kFirst, head.size() - kFirst));
    file_->sync();
    return end_;
  }

 private:
  void put(uint64_t offset, Bytes bytes) {
    file_->write_at(offset, bytes);
    end_ = std::max(end_, offset + bytes.size());
  }
  Section put_section(Bytes bytes) {
    const Section out{end_, bytes.size()};
    put(end_, bytes);
    return out;
  }

  std::string path_;
  Envelope envelope_;
  Json header_;
  std::vector<Tensor> tensors_;  // names look into the mapped file and into added_
  std::vector<Declaration> added_;
  std::optional<std::vector<uint8_t>> masks_;
  size_t next_;
  std::string header_text_;
  std::unique_ptr<OutputFile> file_;
  uint64_t end_ = 0;
};

}  // namespace

struct Update::State {
  State(FileSystem& file_system, std::string output_path, Progress& listener, const Cancellation& wish)
      : files(file_system), output(std::move(output_path)), progress(listener), cancel(wish) {}

  FileSystem& files;
  std::string output;
  Progress& progress;
  const Cancellation& cancel;
  std::unique_ptr<FileLock> lock;
  std::shared_ptr<const FileSet> model;
  std::vector<std::string> warnings;
  std::unique_ptr<Target> target;

  bool in_place() const { return output.empty(); }

  // All tensors but the removed ones; in place, those of the first shard.
  std::vector<Tensor> kept(const std::vector<std::string>& remove) const {
    std::unordered_set<std::string_view> gone;
    for (const std::string& name : remove) {
      const Tensor* tensor = model->find(name);
      if (!tensor) fail(ErrorKind::Usage, "{}: there is no tensor '{}'", model->first().path(), printable(name));
      if (in_place() && tensor->shard != 0) {
        fail(ErrorKind::Usage, "{}: tensor '{}' is in another shard, {}; write the change to a new file (-o)",
             model->first().path(), printable(name), model->files()[tensor->shard]->path());
      }
      gone.insert(name);
    }
    std::vector<Tensor> out;
    for (const Tensor& tensor : model->tensors()) {
      if (in_place() && tensor.shard != 0) continue;
      if (!gone.contains(tensor.name)) out.push_back(tensor);
    }
    return out;
  }

  // A shard alone cannot tell whether its replacements have their backbone; the set can.
  void check_against_set(const Json& header, const Change& change) const {
    if (!in_place() || model->files().size() == 1) return;
    const std::string& path = model->first().path();
    const Header parsed = parse_header(write_json(header), path);
    std::vector<Tensor> added(change.add.size());
    for (size_t i = 0; i < added.size(); ++i) {
      added[i].name = change.add[i].name;
      added[i].shape = change.add[i].shape;
      const Tensor* same = model->find(added[i].name);
      if (same && same->shard != 0) {
        fail(ErrorKind::Parse, "{}: tensor '{}' exists in shard {} already", path, printable(added[i].name),
             same->shard + 1);
      }
    }
    check_skill_tensors(added, parsed, path, [&](std::string_view name) { return model->find(name); });
  }
};

Update::Update(FileSystem& files, const std::string& path, const std::string& output, Progress& progress,
               const Cancellation& cancel)
    : state_(std::make_unique<State>(files, output, progress, cancel)) {
  State& state = *state_;
  state.model = FileSet::open(path, files);
  const std::string first = state.model->first().path();
  if (output.empty() || same_file(files, output, first)) {
    state.lock = lock_current(files, first);
    state.model = FileSet::open(first, files);
  }
  for (const auto& file : state.model->files()) require_intact_sections(*file);
}

Update::~Update() = default;

const FileSet& Update::model() const noexcept { return *state_->model; }

Json Update::header() const {
  const Json& json = *model().header().json;
  return state_->in_place() ? json : without_shard(json);
}

void Update::begin(Change change) {
  State& state = *state_;
  if (state.target) fail(ErrorKind::Usage, "{}: the change was begun already", model().first().path());
  Json header = change.header ? std::move(*change.header) : this->header();
  std::vector<Tensor> kept = state.kept(change.remove);
  state.check_against_set(header, change);
  const File& first = model().first();
  if (first.envelope().index.length != 0 && (!state.in_place() || change.masks)) {
    state.warnings.push_back(fmt::format("{}: its sparse index, which nothing uses, is left out", first.path()));
  }
  const std::string& target = state.in_place() ? first.path() : state.output;
  if (state.files.exists(signature_path(target))) {
    state.warnings.push_back(fmt::format("{}: will not fit the changed file; sign it again", signature_path(target)));
  }
  if (state.in_place()) {
    state.target = std::make_unique<InPlace>(state.files, first, std::move(kept), std::move(header), std::move(change));
  } else {
    state.target = std::make_unique<NewFile>(state.files, state.output, model(), kept, std::move(header),
                                             std::move(change), state.progress, state.cancel);
  }
}

void Update::append(Bytes payload) {
  state_->cancel.check();
  if (!state_->target) fail(ErrorKind::Usage, "{}: the change was not begun", model().first().path());
  state_->target->append(payload);
}

uint64_t Update::finish() {
  if (!state_->target) begin({});
  const uint64_t size = state_->target->finish();
  state_->lock.reset();
  return size;
}

const std::vector<std::string>& Update::warnings() const noexcept { return state_->warnings; }

}  // namespace cortiq::cmf
