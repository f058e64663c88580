// SPDX-License-Identifier: MIT
#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "belfry/apps/cli/exit_codes.h"
#include "belfry/apps/cli/sample_internal.h"
#include "belfry/core/philox.h"
#include "belfry/towers/checkpoint/checkpoint.h"
#include "belfry/towers/checkpoint/folder.h"
#include "belfry/towers/session.h"

namespace belfry {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr Purpose kSample{6};  // beside those of the library

// Bytes stand for themselves; other tokens are numbers with blanks between them.
Tokens parsed(const std::string& prompt, bool bytes, std::int64_t classes) {
  if (bytes) {
    Tokens out;
    for (const char c : prompt) out.push_back(static_cast<unsigned char>(c));
    return out;
  }
  Tokens out;
  for (const char *at = prompt.data(), *const end = at + prompt.size(); at != end;) {
    if (*at == ' ') {
      ++at;
      continue;
    }
    std::int32_t token = -1;
    const auto [next, status] = std::from_chars(at, end, token);
    if (status != std::errc() || token < 0 || token >= classes || (next != end && *next != ' '))
      throw ConfigError(ErrorText{
          .what = "--prompt: not a list of tokens",
          .found = "'" + prompt + "'",
          .expected = "numbers in [0, " + std::to_string(classes) + ") with blanks between them"});
    out.push_back(token);
    at = next;
  }
  return out;
}

std::string shown(std::int32_t token, bool bytes) {
  return bytes ? std::string(1, static_cast<char>(token)) : std::to_string(token) + " ";
}

// The logits behind the last of up to `context` tokens. While these are all there are, only those
// that `past` has not seen are gone over; then every token moves to another position.
std::vector<double> logits_after(Classifier& model, const Tokens& tokens,
                                 std::vector<KeyValues>& past, std::int64_t context,
                                 std::int64_t classes, Device& device) {
  const auto row = [&](std::int64_t n) {  // the last n tokens
    return Tensor::from({tokens.end() - n, tokens.end()}, {1, n}, DType::i32, device);
  };
  const auto all = static_cast<std::int64_t>(tokens.size());
  std::optional<Tensor> logits;
  if (all <= context)
    logits = model.continued(row(all - (past.empty() ? 0 : past.front().positions())), past);
  if (!logits) logits = model.forward(row(std::min(context, all)));
  const std::int64_t n = logits->shape()[1];
  std::vector<double> out = logits->view({n, logits->shape()[2]}).rows(n - 1, 1).to_vector();
  out.resize(static_cast<std::size_t>(classes));  // a vocabulary may be padded
  return out;
}

void generate(TrainSession& session, bool ema, const SampleArguments& a, const CliIo& io) {
  const bool bytes = session.data().label_unit() == "byte";
  const std::int64_t classes = session.data().classes();
  Tokens tokens = parsed(a.prompt, bytes, classes);
  for (const std::int32_t t : tokens) io.out(shown(t, bytes));
  if (tokens.empty()) tokens.push_back(bytes ? '\n' : 0);  // something to continue
  const Philox random = philox_key(static_cast<std::uint64_t>(a.seed), kSample);
  const std::string field = session.config().model->input().field;
  Loader one(session.context(), session.first_row(), {.batch = 1, .shuffle = false, .prefetch = 0});
  session.group().evaluate(
      one,
      [&](Module& module, const Batch& row, Step& step) {
        auto& model = static_cast<Classifier&>(module);
        const std::int64_t context = row[field].shape()[1];
        std::vector<KeyValues> past;
        for (std::int64_t i = 0; i < a.length; ++i) {
          const auto words = random(static_cast<std::uint32_t>(i), 0, 0, 0);
          const double draw = (words.v[0] + words.v[1] * 0x1p-32) * 0x1p-32;
          tokens.push_back(static_cast<std::int32_t>(next_token(
              logits_after(model, tokens, past, context, classes, session.context().device(0)),
              a.temperature, a.top_k, draw)));
          io.out(shown(tokens.back(), bytes));
        }
        return session.loss(session.config().data)(module, row, step);
      },
      ema);
  io.out("\n");
}

}  // namespace

std::int64_t next_token(const std::vector<double>& logits, double temperature, std::int64_t top_k,
                        double draw) {
  const auto most = std::max_element(logits.begin(), logits.end());
  if (!std::isfinite(*most) ||
      std::any_of(logits.begin(), logits.end(), [](double z) { return std::isnan(z); }))
    throw NumericError("a logit of the model is not finite");
  if (temperature == 0) return most - logits.begin();
  std::vector<double> weights;
  for (const double z : logits) weights.push_back(std::exp((z - *most) / temperature));
  const auto n = static_cast<std::int64_t>(logits.size());
  if (top_k > 0 && top_k < n) {
    std::vector<std::size_t> order(logits.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t x, std::size_t y) { return logits[x] > logits[y]; });
    for (auto i = static_cast<std::size_t>(top_k); i < order.size(); ++i) weights[order[i]] = 0;
  }
  const double target = draw * std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  std::int64_t last = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double w = weights[static_cast<std::size_t>(i)];
    if (w > 0) last = i;
    sum += w;
    if (sum > target) return i;
  }
  return last;  // rounding
}

void SampleArguments::declare(CLI::App& command) {
  wanted_ = command.add_option("--sample", length,
                               "continue a prompt by so many bytes or tokens, instead of [test]");
  others_ = {command.add_option("--prompt", prompt, "text, or numbers of tokens, to continue"),
             command.add_option("--temperature", temperature,
                                "divides the logits; 0: the likeliest token"),
             command.add_option("--top-k", top_k, "draw among the k likeliest; 0: among all"),
             command.add_option("--sample-seed", seed, "of the draws")};
}

void SampleArguments::check() const {
  const auto fault = [](const std::string& flag, const std::string& found,
                        const std::string& expected) {
    throw ConfigError(ErrorText{.what = flag, .found = found, .expected = expected});
  };
  for (const CLI::Option* option : others_)
    if (option->count() > 0 && !wanted())
      fault(option->get_name() + " needs --sample", "no --sample", "--sample LENGTH");
  if (wanted() && length < 1) fault("--sample", std::to_string(length), "at least 1");
  if (!(temperature >= 0 && std::isfinite(temperature)))
    fault("--temperature", std::to_string(temperature), "a number of at least 0");
  if (top_k < 0) fault("--top-k", std::to_string(top_k), "at least 0");
  if (seed < 0) fault("--sample-seed", std::to_string(seed), "at least 0");
}

int sample(CliContext& context, TrainConfig config, const std::string& checkpoint, bool ema,
           const SampleArguments& arguments) {
  const CliContext aside = beside(context, true);
  config.towers = "cpu:1";
  config.threads_per_tower = 1;
  config.precision = "f32";
  config.transport = "auto";
  const std::string path = find_checkpoint(checkpoint, config.fallback, aside.log);
  config.test.reset();
  config.validation.reset();
  TrainSession session(std::move(config), aside.log, {.saved = read_manifest(path).run.data});
  if (session.data().label_unit().empty())
    throw ConfigError(ErrorText{.what = "--sample needs a model of text or tokens",
                                .found = session.data().describe(),
                                .expected = "data whose label is the next byte or token"});
  if (const std::int64_t classes = session.data().classes(); arguments.top_k > classes)
    throw ConfigError(
        ErrorText{.what = "--top-k is more than there are to draw from",
                  .found = std::to_string(arguments.top_k),
                  .expected = "at most " + std::to_string(classes) + ", or 0 for all"});
  Checkpoint(path, session.group()).load({.optimizer = false, .ema = ema});
  generate(session, ema, arguments, context.io);
  return kExitOk;
}

}  // namespace belfry
