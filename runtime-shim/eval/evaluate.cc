#include "runtime-shim/eval/evaluate.h"

#include <algorithm>
#include <cassert>

#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "runtime-shim/eval/token_scores.h"
#include "runtime-shim/profile/windows.h"
#include "runtime-shim/session/placer.h"

namespace moepack::runtime {
namespace {

// One run: a session, its observer, and the logits of the current chunk.
struct Run {
  std::unique_ptr<CaptureObserver> observer;  // null when nothing is measured
  std::unique_ptr<Session> session;
  std::vector<float> logits;
  std::vector<TokenScores> scores;  // borrow the logits
};

// Tokens of a window that run together, and which of their rows are scored.
struct Chunk {
  std::span<const uint32_t> tokens;
  uint32_t first_row = 0, end_row = 0;
  std::span<const uint32_t> targets;  // of the rows
};

Chunk CutChunk(const Window& window, uint32_t first, uint32_t most) {
  const auto size = static_cast<uint32_t>(window.tokens.size());
  const uint32_t end = std::min(size, first + most);
  Chunk chunk;
  chunk.tokens = std::span(window.tokens).subspan(first, end - first);
  // Row t predicts the token at t + 1.
  const uint32_t from = std::max(first, window.first_scored - 1);
  const uint32_t to = std::min(end, size - 1);
  if (from >= to) return chunk;
  chunk.first_row = from - first;
  chunk.end_row = to - first;
  chunk.targets = std::span(window.tokens).subspan(from + 1, to - from);
  return chunk;
}

void Compare(const Run& from, const Run& to, Comparison& comparison) {
  for (size_t row = 0; row < from.scores.size(); ++row) {
    comparison.divergence.push_back(from.scores[row].DivergenceTo(to.scores[row]));
    comparison.agreements += from.scores[row].best() == to.scores[row].best();
  }
}

void AddScores(const Run& run, const Chunk& chunk, std::vector<double>& log_probabilities) {
  for (size_t row = 0; row < run.scores.size(); ++row) {
    log_probabilities.push_back(run.scores[row].LogProbability(chunk.targets[row]));
  }
}

class Evaluator {
 public:
  Evaluator(const EvalInput& input, const EvalOptions& options)
      : input_(input), options_(options) {}

  Status Open() {
    // The unmasked run of the groups' own weights is the teacher of captures; without it, the
    // reference is.
    if (input_.reference) SHARD_CHECK(OpenTeacher(*input_.reference, !input_.full, reference_));
    if (input_.full) SHARD_CHECK(OpenTeacher(*input_.full, true, full_));
    for (const Participant& group : input_.groups) {
      auto observer = std::make_unique<CaptureObserver>(
          CaptureObserver::Teacher::kUnmasked, std::vector<const LayerExperts*>{&group.eligible},
          input_.routers, input_.bos);
      SHARD_CHECK(OpenRun(group, std::move(observer), groups_.emplace_back()));
    }
    return Ok();
  }

  uint64_t Work(const EvalTokens& session) const {
    const uint64_t loop = options_.generate > 0 ? Prompt(session).size() + options_.generate : 0;
    return (session.tokens.size() + loop) * Runs();
  }
  void ExpectWork(uint64_t total) { total_ = total; }

  Result<SessionMeasure> Measure(const EvalTokens& session) {
    SessionMeasure measure;
    measure.name = session.name;
    measure.bucket = session.bucket;
    measure.groups.resize(groups_.size());
    if (input_.placement)
      measure.placed = Place(*input_.placement, WithoutBos(session.tokens, input_.bos));
    const std::vector<Window> windows =
        SplitWindows(session.tokens, options_.context, input_.bos, options_.score_half);
    for (const Window& window : windows) SHARD_CHECK(Score(window, measure));
    TakeCaptures(measure);
    if (options_.generate > 0) SHARD_CHECK(TestLoops(session, measure));
    return measure;
  }

 private:
  uint64_t Runs() const {
    return groups_.size() + (input_.reference ? 1 : 0) + (input_.full ? 1 : 0);
  }

  static Status OpenRun(const Participant& participant, std::unique_ptr<CaptureObserver> observer,
                        Run& run) {
    run.observer = std::move(observer);
    SHARD_TRY(run.session, participant.open(run.observer.get()));
    return Ok();
  }

  Status OpenTeacher(const Participant& participant, bool teaches, Run& run) {
    std::unique_ptr<CaptureObserver> observer;
    if (teaches) {
      std::vector<const LayerExperts*> masks;
      for (const Participant& group : input_.groups) masks.push_back(&group.eligible);
      observer = std::make_unique<CaptureObserver>(CaptureObserver::Teacher::kApplied,
                                                   std::move(masks), input_.routers, input_.bos);
    }
    return OpenRun(participant, std::move(observer), run);
  }

  // All runs take a chunk before any takes the next, so that only the logits of one chunk per run
  // are in memory.
  Status Score(const Window& window, SessionMeasure& measure) {
    ForEachRun([](Run& run) {
      run.session->Rewind(0);
      if (run.observer) run.observer->StartWindow();
    });
    for (uint32_t first = 0; first < window.tokens.size(); first += options_.chunk) {
      const Chunk chunk = CutChunk(window, first, options_.chunk);
      SHARD_CHECK(ScoreChunk(chunk, measure));
    }
    return Ok();
  }

  Status ScoreChunk(const Chunk& chunk, SessionMeasure& measure) {
    if (reference_.session) {
      SHARD_CHECK(Feed(chunk, reference_));
      AddScores(reference_, chunk, measure.reference);
    }
    if (full_.session) {
      SHARD_CHECK(Feed(chunk, full_));
      AddScores(full_, chunk, measure.full);
      if (reference_.session) Compare(reference_, full_, measure.quantization);
    }
    for (size_t i = 0; i < groups_.size(); ++i) {
      SHARD_CHECK(Feed(chunk, groups_[i]));
      GroupMeasure& group = measure.groups[i];
      AddScores(groups_[i], chunk, group.log_probability);
      if (full_.session) Compare(full_, groups_[i], group.from_full);
      if (reference_.session) Compare(reference_, groups_[i], group.from_reference);
      groups_[i].scores.clear();
      std::vector<float>().swap(groups_[i].logits);
    }
    return Ok();
  }

  Status Feed(const Chunk& chunk, Run& run) {
    SHARD_CHECK(CheckInterrupt());
    if (run.observer) run.observer->Feeding(chunk.tokens);
    const bool scored = chunk.end_row > chunk.first_row;
    run.scores.clear();
    SHARD_TRY(run.logits,
              run.session->Feed(chunk.tokens, scored ? LogitsOf::kAll : LogitsOf::kLast));
    Advance(chunk.tokens.size());
    if (!scored) return Ok();
    const size_t vocabulary = run.logits.size() / chunk.tokens.size();
    for (uint32_t row = chunk.first_row; row < chunk.end_row; ++row) {
      run.scores.emplace_back(std::span(run.logits).subspan(row * vocabulary, vocabulary));
    }
    return Ok();
  }

  void TakeCaptures(SessionMeasure& measure) {
    Run& teacher = full_.session ? full_ : reference_;
    std::vector<LayerCapture> captures = teacher.observer->Take();
    for (size_t i = 0; i < groups_.size(); ++i) {
      measure.groups[i].teacher = std::move(captures[i]);
      measure.groups[i].on_policy = std::move(groups_[i].observer->Take().front());
    }
  }

  // Returns the beginning of a session, which the loop test continues.
  std::span<const uint32_t> Prompt(const EvalTokens& session) const {
    const size_t longest = options_.context - options_.generate;
    return std::span(session.tokens).first(std::min(session.tokens.size(), longest));
  }

  Status TestLoops(const EvalTokens& session, SessionMeasure& measure) {
    const std::span<const uint32_t> prompt = Prompt(session);
    const auto test = [&](Run& run, std::optional<LoopResult>& loop) -> Status {
      if (!run.session) return Ok();
      SHARD_TRY(loop, TestLoop(prompt, run));
      Advance(prompt.size() + options_.generate);
      return Ok();
    };
    SHARD_CHECK(test(reference_, measure.reference_loop));
    SHARD_CHECK(test(full_, measure.full_loop));
    for (size_t i = 0; i < groups_.size(); ++i) {
      SHARD_CHECK(test(groups_[i], measure.groups[i].loop));
    }
    return Ok();
  }

  Result<LoopResult> TestLoop(std::span<const uint32_t> prompt, Run& run) {
    if (run.observer) run.observer->Rest(true);
    run.session->Rewind(0);
    std::vector<uint32_t> generated;
    SHARD_TRY(std::vector<float> logits, run.session->Feed(prompt, LogitsOf::kLast));
    while (true) {
      const uint32_t token = TokenScores(logits).best();
      if (input_.is_end && input_.is_end(token)) break;
      generated.push_back(token);
      if (generated.size() == options_.generate) break;
      SHARD_CHECK(CheckInterrupt());
      SHARD_TRY(logits, run.session->Feed(std::span(&token, 1), LogitsOf::kLast));
    }
    if (run.observer) run.observer->Rest(false);
    return FindLoop(generated);
  }

  template <class F>
  void ForEachRun(const F& act) {
    if (reference_.session) act(reference_);
    if (full_.session) act(full_);
    for (Run& run : groups_) act(run);
  }

  void Advance(uint64_t tokens) {
    done_ += tokens;
    if (options_.progress) options_.progress(std::min(done_, total_), total_);
  }

  const EvalInput& input_;
  const EvalOptions& options_;
  Run reference_, full_;
  std::vector<Run> groups_;
  uint64_t done_ = 0, total_ = 0;
};

// No window is longer than the first, so it is enough to check that one.
Status CheckScored(const EvalTokens& session, const EvalOptions& options) {
  const uint32_t first = FirstScored(options.context, options.score_half);
  if (std::min<size_t>(session.tokens.size(), options.context) > first) return Ok();
  const std::string where = Cat("session ", Quoted(session.name), ": ");
  if (options.context <= first)
    return Error{Code::kInvalidArgument,
                 Cat(where, "context: expected more than ", first,
                     " tokens to score the second half, found ", options.context)};
  return Error{Code::kInvalidArgument,
               Cat(where, "tokens: expected more than ", first, " to score any, found ",
                   session.tokens.size()),
               options.score_half ? "use longer texts, a smaller --context, or no --score-half"
                                  : "use longer texts"};
}

}  // namespace

Result<std::vector<SessionMeasure>> Evaluate(const EvalInput& input,
                                             std::span<const EvalTokens> sessions,
                                             const EvalOptions& options) {
  assert(input.reference || input.full);
  assert(options.generate < options.context && options.chunk > 0);
  for (const EvalTokens& session : sessions) SHARD_CHECK(CheckScored(session, options));
  Evaluator evaluator(input, options);
  SHARD_CHECK(evaluator.Open());
  uint64_t work = 0;
  for (const EvalTokens& session : sessions) work += evaluator.Work(session);
  evaluator.ExpectWork(work);
  std::vector<SessionMeasure> measures;
  for (const EvalTokens& session : sessions) {
    auto measure = evaluator.Measure(session);
    if (!measure) return std::move(measure).error().Within("session \"" + session.name + "\"");
    measures.push_back(*std::move(measure));
  }
  return measures;
}

}  // namespace moepack::runtime
