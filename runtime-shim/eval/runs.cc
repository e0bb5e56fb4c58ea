#include "runtime-shim/eval/runs.h"

#include <utility>

namespace moepack::runtime {
namespace {

Status OpenRun(const Participant& participant, std::unique_ptr<CaptureObserver> observer,
               Run& run) {
  run.observer = std::move(observer);
  SHARD_TRY(run.session, participant.open(run.observer.get()));
  return Ok();
}

Status OpenTeacher(const EvalInput& input, const Participant& participant, bool teaches, Run& run) {
  std::unique_ptr<CaptureObserver> observer;
  if (teaches) {
    std::vector<const LayerExperts*> masks;
    for (const Participant& group : input.groups) masks.push_back(&group.eligible);
    observer = std::make_unique<CaptureObserver>(CaptureObserver::Teacher::kApplied,
                                                 std::move(masks), input.routers, input.bos);
  }
  return OpenRun(participant, std::move(observer), run);
}

}  // namespace

std::vector<Run*> RunSet::own() {
  std::vector<Run*> runs;
  if (full.session) runs.push_back(&full);
  for (Run& group : groups) runs.push_back(&group);
  return runs;
}

std::vector<Run*> RunSet::all() {
  std::vector<Run*> runs = own();
  if (reference.session) runs.push_back(&reference);
  return runs;
}

void RunSet::StartWindow() {
  for (Run* run : all()) {
    run->session->Rewind(0);
    if (run->observer) run->observer->StartWindow();
  }
}

void RunSet::Feeding(std::span<const uint32_t> tokens) {
  for (Run* run : all()) {
    if (run->observer) run->observer->Feeding(tokens);
  }
}

void RunSet::TakeCaptures(SessionMeasure& measure) {
  Run& teacher = full.session ? full : reference;
  std::vector<LayerCapture> captures = teacher.observer->Take();
  for (size_t i = 0; i < groups.size(); ++i) {
    measure.groups[i].teacher = std::move(captures[i]);
    measure.groups[i].on_policy = std::move(groups[i].observer->Take().front());
  }
}

Result<RunSet> OpenRuns(const EvalInput& input) {
  RunSet runs;
  if (input.reference)
    SHARD_CHECK(OpenTeacher(input, *input.reference, !input.full, runs.reference));
  if (input.full) SHARD_CHECK(OpenTeacher(input, *input.full, true, runs.full));
  for (const Participant& group : input.groups) {
    auto observer = std::make_unique<CaptureObserver>(
        CaptureObserver::Teacher::kUnmasked, std::vector<const LayerExperts*>{&group.eligible},
        input.routers, input.bos);
    SHARD_CHECK(OpenRun(group, std::move(observer), runs.groups.emplace_back()));
  }
  return runs;
}

}  // namespace moepack::runtime
