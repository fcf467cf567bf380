#include "engine/bench.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"

namespace cortiq::engine {

namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

BenchResult bench(Decoder& decoder, const std::shared_ptr<const Binding>& binding, const BenchOptions& options,
                  const Cancellation& cancel) {
  const Model& model = decoder.model();
  if (options.prompt == 0 || options.tokens < 2 || options.repeats == 0 || options.batch == 0) {
    fail(ErrorKind::Usage, "bench needs a prompt, at least two tokens, a repeat and a sequence");
  }
  if (options.prompt + options.tokens > model.context()) {
    fail(ErrorKind::Bounds, "{} + {} ids do not fit the context of {} positions", options.prompt, options.tokens,
         model.context());
  }
  BenchResult result;
  std::vector<double> prefill, decode, first;
  for (uint64_t repeat = 0; repeat < options.repeats; ++repeat) {
    Scheduler scheduler(decoder, options.batch, nullptr, options.mtp);
    std::vector<Generated> answers;
    Random random(42);
    for (uint64_t b = 0; b < options.batch; ++b) {
      Request request;
      for (uint64_t i = 0; i < options.prompt; ++i) {
        request.prompt.push_back(static_cast<uint32_t>(random.next() % model.vocab()));
      }
      request.binding = binding;
      request.options.max_tokens = options.tokens;
      request.options.sampler = SamplerOptions::greedy();
      request.options.ignore_eos = true;
      request.done = [&](Generated&& generated) { answers.push_back(std::move(generated)); };
      request.failed = [](const Error& error) { throw error; };
      scheduler.submit(std::move(request));
    }
    while (scheduler.step()) cancel.check();
    double slowest_prompt = 0, slowest_decode = 0;
    for (const Generated& answer : answers) {
      slowest_prompt = std::max(slowest_prompt, answer.prompt_seconds);
      slowest_decode = std::max(slowest_decode, answer.decode_seconds);
      result.drafted += answer.drafted;
      result.accepted += answer.accepted;
    }
    const auto sequences = static_cast<double>(options.batch);
    prefill.push_back(sequences * static_cast<double>(options.prompt) / slowest_prompt);
    decode.push_back(sequences * static_cast<double>(options.tokens - 1) / slowest_decode);
    first.push_back(answers.front().first_token_seconds);
  }
  result.prefill_tokens_per_second = median(std::move(prefill));
  result.decode_tokens_per_second = median(std::move(decode));
  result.first_token_seconds = median(std::move(first));
  result.decode_bytes_per_token = model.bytes_per_token(*binding);
  // Caches at the end of a run, measured on one sequence.
  const auto sequence = decoder.sequence(binding);
  const std::vector<uint32_t> ids(options.prompt + options.tokens - 1, 0);
  decoder.prefill(*sequence, ids);
  result.cache_bytes = options.batch * sequence->bytes();
  return result;
}

}  // namespace cortiq::engine
