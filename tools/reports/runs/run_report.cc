#include "tools/reports/runs/run_report.h"

#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"

namespace moepack::cli {
namespace {

std::string Speed(size_t tokens, double seconds) {
  const std::string text = Cat(Plural(tokens, "token"), " in ", FormatElapsed(seconds));
  if (seconds <= 0) return text;
  return Cat(text, " (", FixedPoint(static_cast<double>(tokens) / seconds), " per second)");
}

std::string TokenText(const runtime::Tokenizer* tokenizer, uint32_t id) {
  return tokenizer == nullptr ? Cat(id) : Cat(id, " ", Quoted(tokenizer->Piece(id)));
}

}  // namespace

std::string GeneratedSummary(const GeneratedText& generated) {
  const std::string stop = generated.stop;
  const char* why = stop == "end"       ? "the model ended the text"
                    : stop == "context" ? "the context is full"
                                        : "as many as requested";
  return Cat("prompt: ", Speed(generated.prompt.size(), generated.prompt_seconds),
             "; generated: ", Speed(generated.tokens.size(), generated.seconds), ", ", why);
}

Json GeneratedJson(const GeneratedText& generated) {
  Json tokens = Json::array();
  for (const runtime::NextToken& token : generated.tokens)
    tokens.push_back({{"id", token.id}, {"logprob", token.logprob}});
  return {{"prompt_tokens", generated.prompt},
          {"tokens", std::move(tokens)},
          {"text", generated.text},
          {"stop", generated.stop},
          {"prompt_seconds", generated.prompt_seconds},
          {"seconds", generated.seconds}};
}

std::string ComparedText(const ComparedRuns& runs, const runtime::Tokenizer* tokenizer) {
  const runtime::SideBySide::Findings& found = runs.findings;
  std::string text =
      Cat(runs.expected, " and ", runs.actual, ": ", Plural(found.positions, "position"), ", ",
          runs.prompt, " of them the prompt, the others what ", runs.expected, " generates\n");
  if (found.greedy) {
    text += Cat("first divergence: after position ", found.greedy->position, " ", runs.expected,
                " continues with ", TokenText(tokenizer, found.greedy->expected), ", ", runs.actual,
                " with ", TokenText(tokenizer, found.greedy->actual), "\n");
  } else {
    text += "first divergence: none; both continue identically\n";
  }
  if (found.worst.same_bits) return text + "logits: the same bits\n";
  text += Cat("largest logit difference: ", Scientific(found.worst.largest), " at position ",
              found.worst_position, ", ", Scientific(found.worst.relative),
              " of the largest logit there\n");
  if (!runs.passed()) text += Cat("more than the tolerance of ", Scientific(*runs.tolerance), "\n");
  return text;
}

Json ComparedJson(const ComparedRuns& runs) {
  const runtime::SideBySide::Findings& found = runs.findings;
  Json divergence = nullptr;
  if (found.greedy)
    divergence = {{"position", found.greedy->position},
                  {"expected", found.greedy->expected},
                  {"actual", found.greedy->actual}};
  return {{"executors", {runs.expected, runs.actual}},
          {"prompt_tokens", runs.prompt},
          {"positions", found.positions},
          {"same_bits", found.worst.same_bits},
          {"first_divergence", std::move(divergence)},
          {"largest_difference", found.worst.largest},
          {"relative_difference", found.worst.relative},
          {"at_position", found.worst_position},
          {"tolerance", runs.tolerance ? Json(*runs.tolerance) : Json(nullptr)},
          {"passed", runs.passed()}};
}

}  // namespace moepack::cli
