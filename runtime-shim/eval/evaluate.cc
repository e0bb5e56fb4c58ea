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

// One run: a session and its observer.
struct Run {
  std::unique_ptr<CaptureObserver> observer;  // null if nothing is measured
  std::unique_ptr<Session> session;
};

using Scores = std::vector<TokenScores>;  // of rows; they borrow the logits

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

// Rows of logits of a chunk.
struct ChunkRows {
  const Chunk& chunk;
  uint32_t first, end;  // those that are scored
};

// The scores of `rows`; `logits` begins with row `start` of the chunk.
Scores ScoresOf(const ChunkRows& rows, uint32_t start, std::span<const float> logits,
                size_t vocabulary) {
  Scores scores;
  for (uint32_t row = rows.first; row < rows.end; ++row)
    scores.emplace_back(logits.subspan((row - start) * vocabulary, vocabulary));
  return scores;
}

void Compare(const Scores& from, const Scores& to, Comparison& comparison) {
  for (size_t row = 0; row < from.size(); ++row) {
    comparison.divergence.push_back(from[row].DivergenceTo(to[row]));
    comparison.agreements += from[row].best() == to[row].best();
  }
}

void AddScores(const ChunkRows& rows, const Scores& scores,
               std::vector<double>& log_probabilities) {
  for (size_t i = 0; i < scores.size(); ++i) {
    const uint32_t target = rows.chunk.targets[rows.first + i - rows.chunk.first_row];
    log_probabilities.push_back(scores[i].LogProbability(target));
  }
}

class Evaluator {
 public:
  Evaluator(const EvalInput& input, const EvalOptions& options)
      : input_(input), options_(options) {}

  Status Open() {
    // The unmasked run of the groups' own weights is the teacher for captures; without it, the
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

  // All runs process a chunk before any starts the next: those of the distribution in one pass, so
  // that their weights are decoded once. Their logits are in memory one slice at a time, those of
  // the reference for a whole chunk.
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

  // The runs of the distribution: the unmasked one first, if there is one.
  std::vector<Run*> OwnRuns() {
    std::vector<Run*> runs;
    if (full_.session) runs.push_back(&full_);
    for (Run& group : groups_) runs.push_back(&group);
    return runs;
  }

  Status ScoreChunk(const Chunk& chunk, SessionMeasure& measure) {
    SHARD_CHECK(CheckInterrupt());
    ForEachRun([&](Run& run) {
      if (run.observer) run.observer->Feeding(chunk.tokens);
    });
    const bool scored = chunk.end_row > chunk.first_row;
    const LogitsOf which = scored ? LogitsOf::kAll : LogitsOf::kLast;
    std::vector<float> reference;
    if (reference_.session) {
      SHARD_TRY(reference, reference_.session->Feed(chunk.tokens, which));
      Advance(chunk.tokens.size());
    }
    std::vector<Part> parts;
    for (Run* run : OwnRuns()) parts.push_back({run->session.get(), chunk.tokens});
    if (parts.empty()) {
      // The reference's own logits count as a slice of all rows.
      const auto width = static_cast<uint32_t>(reference.size() / chunk.tokens.size());
      if (scored) AddSlice(chunk, {0, width, {reference}}, reference, measure);
      return Ok();
    }
    SHARD_CHECK(parts.front().session->FeedTogether(parts, which, [&](const LogitsSlice& slice) {
      if (scored) AddSlice(chunk, slice, reference, measure);
      return Ok();
    }));
    Advance(chunk.tokens.size() * parts.size());
    return Ok();
  }

  // Scores the rows of a slice. `reference` has the logits of the whole chunk, or none.
  void AddSlice(const Chunk& chunk, const LogitsSlice& slice, std::span<const float> reference,
                SessionMeasure& measure) {
    const auto count = static_cast<uint32_t>(slice.parts.front().size() / slice.width);
    const ChunkRows rows = {chunk, std::max(slice.first, chunk.first_row),
                            std::min(slice.first + count, chunk.end_row)};
    if (rows.first >= rows.end) return;
    Scores from_reference, full;
    if (reference_.session) {
      from_reference = ScoresOf(rows, 0, reference, slice.width);
      AddScores(rows, from_reference, measure.reference);
    }
    auto part = slice.parts.begin();
    if (full_.session) {
      full = ScoresOf(rows, slice.first, *part++, slice.width);
      AddScores(rows, full, measure.full);
      Compare(from_reference, full, measure.quantization);
    }
    for (GroupMeasure& group : measure.groups) {
      const Scores masked = ScoresOf(rows, slice.first, *part++, slice.width);
      AddScores(rows, masked, group.log_probability);
      Compare(full, masked, group.from_full);
      Compare(from_reference, masked, group.from_reference);
    }
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
    if (reference_.session) {
      Run* const only = &reference_;
      SHARD_TRY(const std::vector<LoopResult> loop, TestLoop(prompt, std::span(&only, 1)));
      measure.reference_loop = loop.front();
    }
    const std::vector<Run*> runs = OwnRuns();
    if (runs.empty()) return Ok();
    SHARD_TRY(const std::vector<LoopResult> loops, TestLoop(prompt, runs));
    auto loop = loops.begin();
    if (full_.session) measure.full_loop = *loop++;
    for (GroupMeasure& group : measure.groups) group.loop = *loop++;
    return Ok();
  }

  // A continuation that grows by its likeliest token.
  struct Continuation {
    Run* run;
    std::vector<uint32_t> generated = {};
    uint32_t next = 0;
    bool ended = false;
  };

  // Runs of one model continue the prompt side by side.
  Result<std::vector<LoopResult>> TestLoop(std::span<const uint32_t> prompt,
                                           std::span<Run* const> runs) {
    std::vector<Continuation> all;
    for (Run* run : runs) {
      if (run->observer) run->observer->Rest(true);
      run->session->Rewind(0);
      all.push_back({run});
    }
    for (size_t first = 0; first < prompt.size(); first += options_.chunk) {
      const auto some =
          prompt.subspan(first, std::min<size_t>(options_.chunk, prompt.size() - first));
      SHARD_CHECK(Continue(all, [&](const Continuation&) { return some; }));
    }
    while (true) {
      for (Continuation& one : all) {
        if (one.ended) continue;
        one.ended = input_.is_end && input_.is_end(one.next);
        if (one.ended) continue;
        one.generated.push_back(one.next);
        one.ended = one.generated.size() == options_.generate;
      }
      if (std::all_of(all.begin(), all.end(), [](const Continuation& one) { return one.ended; }))
        break;
      SHARD_CHECK(Continue(
          all, [](const Continuation& one) { return std::span(&one.generated.back(), 1); }));
    }
    std::vector<LoopResult> loops;
    for (const Continuation& one : all) {
      if (one.run->observer) one.run->observer->Rest(false);
      loops.push_back(FindLoop(one.generated));
    }
    Advance((prompt.size() + options_.generate) * runs.size());
    return loops;
  }

  // Runs the tokens of each continuation that has not ended.
  template <class TokensOf>
  Status Continue(std::vector<Continuation>& all, const TokensOf& tokens_of) {
    SHARD_CHECK(CheckInterrupt());
    std::vector<Continuation*> going;
    std::vector<Part> parts;
    for (Continuation& one : all) {
      if (one.ended) continue;
      going.push_back(&one);
      parts.push_back({one.run->session.get(), tokens_of(one)});
    }
    return parts.front().session->FeedTogether(
        parts, LogitsOf::kLast, [&](const LogitsSlice& slice) {
          for (size_t i = 0; i < going.size(); ++i)
            going[i]->next = TokenScores(slice.parts[i]).best();
          return Ok();
        });
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

// No window is longer than the first, so checking that one is enough.
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
