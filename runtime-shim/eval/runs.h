// The runs of an evaluation that take the same tokens.
#pragma once

#include <memory>
#include <vector>

#include "libshard/base/result.h"
#include "runtime-shim/eval/capture.h"
#include "runtime-shim/eval/evaluate.h"
#include "runtime-shim/session/session.h"

namespace moepack::runtime {

// A session and its observer.
struct Run {
  std::unique_ptr<CaptureObserver> observer;  // null when nothing is measured
  std::unique_ptr<Session> session;
};

// Runs of EvalInput, as far as it has them.
struct RunSet {
  Run reference, full;
  std::vector<Run> groups;

  // The runs of the distribution: the unmasked one first, if there is one.
  std::vector<Run*> own();
  // Makes them ready for another window.
  void StartWindow();
  // Tells the observers what the next pass takes.
  void Feeding(std::span<const uint32_t> tokens);
  // Moves what the observers measured to the groups of `measure`.
  void TakeCaptures(SessionMeasure& measure);

 private:
  std::vector<Run*> all();
};

// Opens every run of the input. The unmasked run of the groups' own weights is the teacher of
// captures; without it, the reference is. Borrows the input.
Result<RunSet> OpenRuns(const EvalInput& input);

}  // namespace moepack::runtime
