#include "engine/inspect.h"

#include <algorithm>

#include "base/error.h"

namespace cortiq::engine {

namespace {

// Collects rows by name in the order in which the names are first seen.
class Collector : public Observer {
 public:
  explicit Collector(uint64_t hidden) : hidden_(hidden) {}

  void embedded(const float* h, uint64_t rows) override { add("hidden.embed", h, rows); }
  void visited(uint64_t visit, const float* h, uint64_t rows) override {
    add("hidden." + std::to_string(visit), h, rows);
  }
  void loop_normed(uint64_t pass, const float* h, uint64_t rows) override {
    add("hidden.loop_norm." + std::to_string(pass), h, rows);
  }
  void finished(const float* h, uint64_t rows) override { add("hidden.final", h, rows); }
  void routed(uint64_t visit, uint64_t, std::span<const uint32_t> chosen, std::span<const float> weights) override {
    const std::string name = "router." + std::to_string(visit);
    NamedTensor& ids = find(name + ".ids", chosen.size());
    ids.values.insert(ids.values.end(), chosen.begin(), chosen.end());
    NamedTensor& values = find(name + ".weights", chosen.size());
    values.values.insert(values.values.end(), weights.begin(), weights.end());
  }

  std::vector<NamedTensor> tensors;

 private:
  NamedTensor& find(const std::string& name, uint64_t width) {
    const auto known =
        std::find_if(tensors.begin(), tensors.end(), [&](const NamedTensor& tensor) { return tensor.name == name; });
    if (known != tensors.end()) return *known;
    tensors.push_back({name, {0, width}, {}});
    return tensors.back();
  }
  void add(const std::string& name, const float* h, uint64_t rows) {
    NamedTensor& tensor = find(name, hidden_);
    tensor.values.insert(tensor.values.end(), h, h + rows * hidden_);
  }

  uint64_t hidden_;
};

std::vector<float> mtp_logits(Decoder& decoder, const std::shared_ptr<const Binding>& binding,
                              std::span<const uint32_t> ids, MtpHidden hidden) {
  if (!decoder.has_mtp()) {
    fail(ErrorKind::Unsupported, "{} has no multi-token-prediction head", decoder.model().set().first().path());
  }
  decoder.use_mtp(hidden == MtpHidden::Pre, hidden == MtpHidden::Post);
  const auto sequence = decoder.sequence(binding);
  std::vector<float> logits;
  // A few ids at a time, so that every hidden state is still known when its row is asked for.
  const uint64_t chunk = std::min<uint64_t>(32, decoder.max_rows());
  for (uint64_t start = 0; start + 1 < ids.size();) {
    const uint64_t count = std::min<uint64_t>(chunk, ids.size() - 1 - start);
    const Piece piece{sequence.get(), ids.subspan(start, count), Piece::Logits::None};
    decoder.forward({&piece, 1});
    start += count;
    Decoder::Drafter drafter{sequence.get(), ids[start], count};
    decoder.draft({&drafter, 1}, hidden);
    for (uint64_t i = 0; i < drafter.count; ++i) {
      const auto row = decoder.draft_logits(drafter.first + i);
      logits.insert(logits.end(), row.begin(), row.end());
    }
  }
  decoder.use_mtp(false, false);
  return logits;
}

}  // namespace

std::vector<NamedTensor> inspect(Decoder& decoder, const std::shared_ptr<const Binding>& binding,
                                 std::span<const uint32_t> ids, const InspectOptions& options) {
  const Model& model = decoder.model();
  if (ids.empty()) fail(ErrorKind::Usage, "there are no ids to run");
  if (ids.size() > model.context()) {
    fail(ErrorKind::Bounds, "{} ids do not fit the context of {} positions", ids.size(), model.context());
  }
  const uint64_t wanted = options.last == 0 ? ids.size() : std::min<uint64_t>(options.last, ids.size());
  const uint64_t first = ids.size() - wanted;
  // Logits of a pass stay below 64 MB.
  const uint64_t most = std::clamp<uint64_t>((uint64_t{1} << 24) / model.vocab(), 1, decoder.max_rows());
  const uint64_t chunk = options.chunk == 0 ? most : std::min(options.chunk, decoder.max_rows());
  Collector collector(model.hidden());
  NamedTensor logits{"logits", {wanted, model.vocab()}, {}};
  logits.values.reserve(wanted * model.vocab());
  const auto sequence = decoder.sequence(binding);
  for (uint64_t start = 0; start < ids.size();) {
    // A chunk ends where the wanted rows begin, so that no others' logits are computed.
    const bool scored = start >= first;
    const uint64_t count = std::min(chunk, (scored ? ids.size() : first) - start);
    const Piece piece{sequence.get(), ids.subspan(start, count), scored ? Piece::Logits::All : Piece::Logits::None};
    decoder.forward({&piece, 1}, options.hidden ? &collector : nullptr);
    for (uint64_t i = 0; i < decoder.logits_count(); ++i) {
      if (!decoder.finite(i)) Decoder::fail_not_finite(start + i);
      const auto row = decoder.logits(i);
      logits.values.insert(logits.values.end(), row.begin(), row.end());
    }
    start += count;
  }
  std::vector<NamedTensor> result;
  result.push_back(std::move(logits));
  for (NamedTensor& tensor : collector.tensors) {
    const uint64_t width = tensor.shape[1], rows = tensor.values.size() / width;
    const uint64_t kept = std::min(wanted, rows);
    tensor.values.erase(tensor.values.begin(), tensor.values.begin() + static_cast<ptrdiff_t>((rows - kept) * width));
    tensor.shape[0] = kept;
    result.push_back(std::move(tensor));
  }
  if (options.mtp) {
    std::vector<float> values = mtp_logits(decoder, binding, ids, *options.mtp);
    result.push_back({"mtp.logits", {values.size() / model.vocab(), model.vocab()}, std::move(values)});
  }
  return result;
}

}  // namespace cortiq::engine
