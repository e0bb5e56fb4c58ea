// The document of an experiment: what a later run resumes from, and what the page draws.
#include "fixtures/temp_dir.h"
#include "libshard/base/text/text.h"
#include "runtime-shim/experiment/document.h"
#include "tests/fuzz/target.h"
#include "tools/page/page.h"
#include "tools/reports/runs/experiment_read.h"

namespace experiment_target {

using moepack::Cat;
using moepack::Json;
using namespace moepack::runtime;

constexpr const char* kName = "experiment.json";
const std::vector<TokenSession> kSessions = {{"a", "", {1, 2, 3, 4}}, {"b", "", {1, 2, 3, 4}}};
const std::vector<size_t> kNodes = {2, 2, 1};
const ExperimentRule kRule = {{2}, 0};

// A split, the same refitted, and a quantization that has run one session.
ExperimentState Rows() {
  ExperimentState state;
  state.rows = {{"same", "", 8, 1000, {}, false},
                {"same", "", 8, 1000, {}, true},
                {"", "Q8_0", std::nullopt, std::nullopt, {}, false}};
  return state;
}

std::vector<std::string> Seeds() {
  ExperimentState state = Rows();
  for (const TokenSession& session : kSessions) {
    for (ExperimentRow& row : state.rows)
      row.sessions.push_back({session.name, "code", 3, {{0.5, 0.25, 0.5, 1}}, 0});
    for (size_t row = 0; row < 2; ++row) {
      state.rows[row].sessions.back().nodes.push_back({0.125, 0.1, 1, 0.5});
      state.rows[row].sessions.back().raced = 1;
    }
  }
  state.rows[2].sessions.pop_back();
  Json document = ExperimentToJson({{"model", "m"}}, kRule, state);
  // Nobody reads the figures of other choices.
  for (Json& row : document["rows"]) row["figures"] = {{"capture", row["figures"]["capture"]}};
  return {document.dump(), ExperimentToJson(Json::object(), kRule, Rows()).dump()};
}

std::vector<std::string> Refused() {
  Json later = ExperimentToJson(Json::object(), kRule, Rows()), other = later, none = later;
  later["version"] = 2;
  other["format"] = "another";
  none["rows"].erase(0);
  return {later.dump(), other.dump(), none.dump(), "[]"};
}

// The state of a run that resumes from the input.
moepack::Result<ExperimentState> Resumed(std::string_view input) {
  static const fixtures::TempDir dir;
  if (!fuzz::WriteInput(dir / kName, input))
    return moepack::Error{moepack::Code::kIo, "cannot write the input"};
  const std::string path = dir / kName;
  SHARD_TRY(FinishedSessions finished, ReadExperiment(path));
  ExperimentState state = Rows();
  SHARD_CHECK(Resume(path, std::move(finished), kSessions, kNodes, state));
  return state;
}

std::string SessionProblem(const SessionFigures& session) {
  if (session.raced >= session.nodes.size()) return "a race that no node won";
  for (const Choice choice : kChoices) {
    const NodeFigures figures = Under(choice, session);
    if (choice == Choice::kBest && figures.kld > Under(Choice::kCapture, session).kld)
      return "a best node that is not the best";
  }
  return "";
}

std::string RunProblem(std::string_view input) {
  const auto state = Resumed(input);
  if (!state) return fuzz::ErrorProblem(state.error(), kName);
  for (size_t row = 0; row < state->rows.size(); ++row) {
    for (size_t i = 0; i < state->rows[row].sessions.size(); ++i) {
      const SessionFigures& session = state->rows[row].sessions[i];
      if (session.name != kSessions.at(i).name) return "a session of another name";
      if (session.nodes.size() != kNodes[row]) return "another number of nodes";
      if (std::string problem = SessionProblem(session); !problem.empty()) return problem;
    }
  }
  const std::string text = ExperimentToJson(Json::object(), kRule, *state).dump();
  const auto again = Resumed(text);
  if (!again) return Cat("refused after writing: ", again.error().message);
  return ExperimentToJson(Json::object(), kRule, *again).dump() == text
             ? ""
             : "another experiment after writing twice";
}

std::string PageProblem(std::string_view input) {
  const auto document = moepack::ParseJson(kName, input);
  if (!document) return fuzz::ErrorProblem(document.error(), kName);
  const auto results = moepack::cli::ExperimentFromJson(kName, *document);
  if (!results) return fuzz::ErrorProblem(results.error(), kName);
  for (const moepack::cli::ExperimentFigures& row : results->rows) {
    if (row.sessions == 0) return "a row without sessions";
    if (!(row.kld.error >= 0 && row.loss.error >= 0 && row.top1.error >= 0))
      return "an error that is none";
  }
  moepack::cli::PageInputs inputs;
  inputs.experiments = {{kName, *results}};
  const std::string page = moepack::cli::ReportPage(inputs);
  return page.ends_with("</html>\n") && page.find("<script") == page.npos ? "" : "a broken page";
}

std::string Check(std::string_view input) {
  const std::string problem = PageProblem(input);
  return problem.empty() ? RunProblem(input) : problem;
}

bool Accepts(std::string_view input) { return Resumed(input).has_value(); }

constexpr fuzz::Target kTarget{.check = Check,
                               .seeds = Seeds,
                               .iterations = 1000,
                               .documents = 200,
                               .accepts = Accepts,
                               .refused = Refused};

}  // namespace experiment_target

FUZZ_JSON_TARGET(FuzzExperiment, experiment_target::kTarget)
