#include "runtime-shim/experiment/run.h"

#include <algorithm>
#include <cassert>

#include "libshard/base/text/text.h"

namespace moepack::runtime {
namespace {

class Experimenter {
 public:
  Experimenter(std::span<const TokenSession> sessions, const ExperimentCalls& calls,
               ExperimentState& state)
      : sessions_(sessions), calls_(calls), state_(state) {}

  // Runs what is missing of the first `end` sessions.
  Status Advance(const ExperimentPass& pass, size_t end) {
    size_t done = Done(pass);
    if (done >= end) return Ok();
    // The parts of a pass advance together; only in an edited file can one have more.
    for (const ExperimentPass::Part& part : pass.parts) state_.rows[part.row].sessions.resize(done);
    SHARD_TRY(const std::unique_ptr<OpenedPass> opened, pass.open());
    for (; done < end; ++done) {
      const std::span<const TokenSession> one = sessions_.subspan(done, 1);
      SHARD_TRY(const std::vector<SessionMeasure> measures,
                Evaluate(opened->input, one, opened->options));
      Add(pass, opened->input, measures.front());
      // A killed run goes on after its last whole session.
      if (calls_.save) SHARD_CHECK(calls_.save(state_));
    }
    return Ok();
  }

 private:
  size_t Done(const ExperimentPass& pass) const {
    size_t done = sessions_.size();
    for (const ExperimentPass::Part& part : pass.parts)
      done = std::min(done, state_.rows[part.row].sessions.size());
    return done;
  }

  void Add(const ExperimentPass& pass, const EvalInput& input, const SessionMeasure& measure) {
    for (const ExperimentPass::Part& part : pass.parts) {
      state_.rows[part.row].sessions.push_back(
          FiguresOf(input, measure, part.groups, calls_.race_tokens));
    }
  }

  std::span<const TokenSession> sessions_;
  const ExperimentCalls& calls_;
  ExperimentState& state_;
};

}  // namespace

Status RunExperiment(std::span<const ExperimentPass> passes, std::span<const TokenSession> sessions,
                     const ExperimentRule& rule, const ExperimentCalls& calls,
                     ExperimentState& state) {
  assert(!rule.looks.empty() && rule.looks.back() == sessions.size());
  Experimenter experimenter(sessions, calls, state);
  // All rows reach a look before the next begins, so every comparison is of the same sessions.
  for (size_t look = state.looks_made; look < rule.looks.size() && !state.complete; ++look) {
    for (const ExperimentPass& pass : passes) {
      Status advanced = experimenter.Advance(pass, rule.looks[look]);
      if (!advanced) return std::move(advanced).error().Within(pass.name);
    }
    state.looks_made = look + 1;
    const bool last = state.looks_made == rule.looks.size();
    state.stopped = !last && rule.until_error > 0 &&
                    LargestError(state.rows, rule.looks[look]) <= rule.until_error;
    state.complete = last || state.stopped;
  }
  return Ok();
}

}  // namespace moepack::runtime
