#include <nlohmann/json.hpp>

#include "base/cancel.h"
#include "base/error.h"
#include "cortiq/cortiq.h"
#include "engine/generate.h"
#include "engine/inspect.h"
#include "engine/prompt.h"
#include "engine/route.h"

namespace cortiq {
namespace {

engine::DecoderOptions decoder_options(const LanguageModel::Options& options) {
  engine::DecoderOptions decoder;
  decoder.mode = options.exact ? kernels::Mode::Exact : kernels::Mode::Fast;
  return decoder;
}

}  // namespace

struct LanguageModel::State {
  ThreadPool pool;
  std::shared_ptr<const engine::Model> model;
  engine::Decoder decoder;
  engine::PrefixCache prefixes{4};

  State(const std::string& path, const Options& options)
      : pool(options.threads == 0 ? usable_threads() : options.threads),
        model(engine::Model::load(path, {.context = options.context})),
        decoder(model, pool, decoder_options(options)) {}

  std::shared_ptr<const engine::Binding> bind(const GenerateOptions& options, const engine::RoutePrompt& prompt) {
    engine::BindingSpec spec;
    spec.skill = options.skill;
    spec.task = options.task;
    if (spec.skill == "auto") {
      const engine::Routing routing = engine::route(decoder, prompt);
      if (!routing.choice) fail(ErrorKind::Usage, "auto: the file has no skill with a selection");
      spec.skill = *routing.choice;
    }
    return model->bind(spec);
  }

  Answer answer(const engine::RoutePrompt& route, const std::vector<uint32_t>& prompt, const GenerateOptions& options,
                const std::function<bool(std::string_view)>& on_text) {
    engine::GenerateOptions wish;
    wish.max_tokens = options.max_tokens;
    wish.sampler.temperature = options.temperature;
    wish.sampler.top_k = options.top_k;
    wish.sampler.top_p = options.top_p;
    wish.sampler.min_p = options.min_p;
    wish.sampler.seed = options.seed;
    wish.sampler.check();
    wish.ignore_eos = options.ignore_eos;
    const auto binding = bind(options, route);
    std::optional<text::StreamDecoder> stream;
    if (on_text && model->tokenizer()) stream.emplace(model->tokenizer(), true);
    const auto token = [&](uint32_t id) {
      if (!stream || model->is_stop(id)) return true;
      const std::string part = stream->push(id);
      return part.empty() || on_text(part);
    };
    const engine::Generated made = engine::generate(decoder, prompt, binding, wish, never_, token, &prefixes);
    if (stream) {
      const std::string rest = stream->flush();
      if (!rest.empty()) on_text(rest);
    }
    Answer answer;
    answer.ids = made.ids;
    if (model->tokenizer()) answer.text = engine::decode_answer(*model, made.ids);
    answer.finish = engine::name(made.finish);
    answer.prompt_tokens = made.prompt_tokens;
    answer.skill = binding->skill();
    return answer;
  }

 private:
  Cancellation never_;
};

LanguageModel::LanguageModel(std::unique_ptr<State> state) : state_(std::move(state)) {}
LanguageModel::LanguageModel(LanguageModel&&) noexcept = default;
LanguageModel& LanguageModel::operator=(LanguageModel&&) noexcept = default;
LanguageModel::~LanguageModel() = default;

LanguageModel LanguageModel::load(const std::string& path, const Options& options) {
  return LanguageModel(std::make_unique<State>(path, options));
}

Answer LanguageModel::chat(const std::vector<Message>& messages, const GenerateOptions& options,
                           const std::function<bool(std::string_view)>& on_text) {
  if (messages.empty()) fail(ErrorKind::Usage, "a conversation needs at least one message");
  Json list = Json::array();
  for (const Message& one : messages) list.push_back({{"role", one.role}, {"content", one.content}});
  const engine::RoutePrompt route{engine::encode_chat(*state_->model, list),
                                  engine::encode_text(*state_->model, messages.back().content)};
  return state_->answer(route, route.chat, options, on_text);
}

Answer LanguageModel::complete(std::string_view text, const GenerateOptions& options,
                               const std::function<bool(std::string_view)>& on_text) {
  const std::vector<uint32_t> ids = engine::encode_text(*state_->model, text);
  return state_->answer({ids, ids}, ids, options, on_text);
}

Answer LanguageModel::complete_ids(const std::vector<uint32_t>& ids, const GenerateOptions& options) {
  return state_->answer({ids, ids}, ids, options, nullptr);
}

std::vector<uint32_t> LanguageModel::tokenize(std::string_view text) const {
  return engine::encode_text(*state_->model, text);
}

std::string LanguageModel::detokenize(std::span<const uint32_t> ids) const {
  if (!state_->model->tokenizer()) fail(ErrorKind::Unsupported, "the file holds no tokenizer");
  return state_->model->tokenizer()->decode(ids, false);
}

std::vector<float> LanguageModel::logits(const std::vector<uint32_t>& ids) {
  const auto tensors = engine::inspect(state_->decoder, state_->model->backbone(), ids, {});
  for (const auto& one : tensors) {
    if (one.name == "logits") return one.values;
  }
  fail(ErrorKind::Parse, "the model gave no logits");
}

uint64_t LanguageModel::vocabulary() const noexcept { return state_->model->vocab(); }
uint64_t LanguageModel::context() const noexcept { return state_->model->context(); }

}  // namespace cortiq
