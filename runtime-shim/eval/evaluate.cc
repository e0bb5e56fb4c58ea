#include "runtime-shim/eval/evaluate.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <functional>
#include <iterator>
#include <span>
#include <vector>

#include "libshard/base/parallel.h"
#include "libshard/base/result.h"
#include "libshard/base/text/text.h"
#include "runtime-shim/eval/runs.h"
#include "runtime-shim/eval/token_scores.h"
#include "runtime-shim/profile/windows.h"
#include "runtime-shim/session/placer.h"

namespace moepack::runtime {
namespace {

// ---- Greedy continuations, for the loop test

// A run that continues a prompt by its likeliest token.
struct Continuation {
  Run* run = nullptr;
  std::span<const uint32_t> prompt;
  std::vector<uint32_t> generated = {};
  uint32_t next = 0;
  bool ended = false;
};

// Runs the tokens of each continuation that has any.
template <class TokensOf>
Status Step(std::vector<Continuation>& all, const TokensOf& tokens_of) {
  SHARD_CHECK(CheckInterrupt());
  std::vector<Continuation*> going;
  std::vector<Part> parts;
  for (Continuation& one : all) {
    const std::span<const uint32_t> tokens = tokens_of(one);
    if (tokens.empty()) continue;
    going.push_back(&one);
    parts.push_back({one.run->session.get(), tokens});
  }
  if (parts.empty()) return Ok();
  return parts.front().session->FeedTogether(parts, LogitsOf::kLast, [&](const LogitsSlice& slice) {
    for (size_t i = 0; i < going.size(); ++i) going[i]->next = TokenScores(slice.parts[i]).best();
    return Ok();
  });
}

Status ReadPrompts(std::vector<Continuation>& all, uint32_t chunk) {
  size_t longest = 0;
  for (const Continuation& one : all) longest = std::max(longest, one.prompt.size());
  for (size_t first = 0; first < longest; first += chunk) {
    SHARD_CHECK(Step(all, [&](const Continuation& one) {
      const size_t from = std::min(first, one.prompt.size());
      return one.prompt.subspan(from, std::min<size_t>(chunk, one.prompt.size() - from));
    }));
  }
  return Ok();
}

// Adds the likeliest token to each continuation that has not ended; false when all have.
bool AddTokens(std::vector<Continuation>& all, const EvalInput& input, const EvalOptions& options) {
  bool going = false;
  for (Continuation& one : all) {
    if (one.ended) continue;
    one.ended = input.is_end && input.is_end(one.next);
    if (one.ended) continue;
    one.generated.push_back(one.next);
    one.ended = one.generated.size() == options.generate;
    going = going || !one.ended;
  }
  return going;
}

// Runs of one model, which continue their prompts side by side. Observers rest meanwhile. Errors
// are those of sessions, and kInterrupted.
Status ContinueAll(std::vector<Continuation>& all, const EvalInput& input,
                   const EvalOptions& options) {
  for (Continuation& one : all) {
    if (one.run->observer) one.run->observer->Rest(true);
    one.run->session->Rewind(0);
  }
  SHARD_CHECK(ReadPrompts(all, options.chunk));
  while (AddTokens(all, input, options)) {
    SHARD_CHECK(Step(all, [](const Continuation& one) {
      return one.ended ? std::span<const uint32_t>() : std::span(&one.generated.back(), 1);
    }));
  }
  for (Continuation& one : all) {
    if (one.run->observer) one.run->observer->Rest(false);
  }
  return Ok();
}

// ----

// ---- Scores of a window, a slice of logits at a time

// Tokens of a window that run together, and which of their rows are scored.
struct Chunk {
  std::span<const uint32_t> tokens;
  uint32_t first_row = 0, end_row = 0;
  std::span<const uint32_t> targets;  // of the rows
  bool scored() const { return end_row > first_row; }
};

// Logits of a chunk's rows from `first` on, one list for each run of the distribution.
struct ChunkLogits {
  uint32_t first = 0, width = 0;
  std::span<const std::span<const float>> own;
  bool full = false;                 // the unmasked run is the first of them
  std::span<const float> reference;  // of the whole chunk, or empty
};

using Scores = std::vector<TokenScores>;  // of rows; they borrow the logits

// Rows of a chunk that are scored.
struct ScoredRows {
  uint32_t first, end;
};

// The scores of `rows`; `logits` begins with the row `start` of the chunk.
Scores ScoresOf(const ScoredRows& rows, uint32_t start, std::span<const float> logits,
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

void AddLogProbabilities(std::span<const uint32_t> targets, const Scores& scores,
                         std::vector<double>& log_probabilities) {
  for (size_t i = 0; i < scores.size(); ++i)
    log_probabilities.push_back(scores[i].LogProbability(targets[i]));
}

template <class T>
void MoveBehind(std::vector<T>& from, std::vector<T>& to) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

void MoveBehind(Comparison& from, Comparison& to) {
  MoveBehind(from.divergence, to.divergence);
  to.agreements += from.agreements;
}

void MoveBehind(LayerCapture& from, LayerCapture& to) {
  to.resize(std::max(from.size(), to.size()));
  for (size_t layer = 0; layer < from.size(); ++layer) MoveBehind(from[layer], to[layer]);
}

// At most `most` tokens from `first` on. Borrows the window.
Chunk CutChunk(const Window& window, uint32_t first, uint32_t most) {
  const auto size = static_cast<uint32_t>(window.tokens.size());
  const uint32_t end = std::min(size, first + most);
  Chunk chunk;
  chunk.tokens = std::span(window.tokens).subspan(first, end - first);
  // Row t predicts the token at t + 1.
  const uint32_t from = std::max(first, window.first_scored - 1);
  // The last row of a window predicts a token that is not there.
  const uint32_t to = std::min(end, size - 1);
  if (from >= to) return chunk;
  chunk.first_row = from - first;
  chunk.end_row = to - first;
  chunk.targets = std::span(window.tokens).subspan(from + 1, to - from);
  return chunk;
}

// Adds the figures of the scored rows among them.
void AddScores(const Chunk& chunk, const ChunkLogits& logits, SessionMeasure& measure) {
  const std::span<const float> rows_of = logits.own.empty() ? logits.reference : logits.own.front();
  const auto count = static_cast<uint32_t>(rows_of.size() / logits.width);
  const ScoredRows rows = {std::max(logits.first, chunk.first_row),
                           std::min(logits.first + count, chunk.end_row)};
  if (rows.first >= rows.end) return;
  const auto targets = chunk.targets.subspan(rows.first - chunk.first_row);
  Scores from_reference, full;
  if (!logits.reference.empty()) {
    from_reference = ScoresOf(rows, 0, logits.reference, logits.width);
    AddLogProbabilities(targets, from_reference, measure.reference);
  }
  auto own = logits.own.begin();
  if (logits.full) {
    full = ScoresOf(rows, logits.first, *own++, logits.width);
    AddLogProbabilities(targets, full, measure.full);
    Compare(from_reference, full, measure.quantization);
  }
  for (GroupMeasure& group : measure.groups) {
    const Scores masked = ScoresOf(rows, logits.first, *own++, logits.width);
    AddLogProbabilities(targets, masked, group.log_probability);
    Compare(full, masked, group.from_full);
    Compare(from_reference, masked, group.from_reference);
  }
}

// Adds what was measured of a window to what was measured of the windows before it.
void Append(SessionMeasure&& window, SessionMeasure& session) {
  MoveBehind(window.reference, session.reference);
  MoveBehind(window.full, session.full);
  MoveBehind(window.quantization, session.quantization);
  for (size_t i = 0; i < window.groups.size(); ++i) {
    GroupMeasure &from = window.groups[i], &to = session.groups[i];
    MoveBehind(from.log_probability, to.log_probability);
    MoveBehind(from.from_full, to.from_full);
    MoveBehind(from.from_reference, to.from_reference);
    MoveBehind(from.teacher, to.teacher);
    MoveBehind(from.on_policy, to.on_policy);
  }
}

// ----

// What is told of the tokens of all passes.
struct Work {
  uint64_t done = 0, total = 0;
};

// A window and the session that it is of.
struct EvalWindow {
  size_t session;
  Window window;
};

// Runs one pass. One that repeats an earlier one with other groups only measures these.
class Evaluator {
 public:
  Evaluator(const EvalInput& input, std::span<const TokenSession> sessions,
            const EvalOptions& options, bool repeats, Work& work)
      : input_(input), sessions_(sessions), options_(options), repeats_(repeats), work_(work) {}

  // Tokens of all runs.
  uint64_t WorkOf(const TokenSession& session) const {
    const uint64_t teachers = (input_.reference ? 1 : 0) + (input_.full ? 1 : 0);
    const uint64_t groups = input_.groups.size();
    const uint64_t loop = options_.generate > 0 ? Prompt(session).size() + options_.generate : 0;
    return session.tokens.size() * (groups + teachers) +
           loop * (groups + (repeats_ ? 0 : teachers));
  }

  // Windows of all sessions, several at a time, and then the loop test.
  Result<std::vector<SessionMeasure>> MeasureAll() {
    const std::vector<EvalWindow> windows = AllWindows();
    const size_t most = std::min<size_t>(std::max(1u, options_.windows), windows.size());
    for (size_t i = 0; i < most; ++i) {
      SHARD_TRY(RunSet runs, OpenRuns(input_));
      slots_.push_back(std::move(runs));
    }
    for (const TokenSession& session : sessions_) measures_.push_back(Begin(session));
    for (size_t first = 0; first < windows.size(); first += most) {
      const auto some = std::span(windows).subspan(first, std::min(most, windows.size() - first));
      SHARD_CHECK(Named(RunWindows(some), some.front().session, some.back().session));
    }
    for (size_t first = 0; first < sessions_.size() && options_.generate > 0; first += most) {
      const size_t count = std::min(most, sessions_.size() - first);
      SHARD_CHECK(Named(TestLoops(first, count), first, first + count - 1));
    }
    return std::move(measures_);
  }

 private:
  std::vector<EvalWindow> AllWindows() const {
    std::vector<EvalWindow> windows;
    for (size_t i = 0; i < sessions_.size(); ++i) {
      for (Window& window :
           SplitWindows(sessions_[i].tokens, options_.context, input_.bos, options_.score_half))
        windows.push_back({i, std::move(window)});
    }
    return windows;
  }

  SessionMeasure Begin(const TokenSession& session) const {
    SessionMeasure measure;
    measure.name = session.name;
    measure.bucket = session.bucket;
    measure.groups.resize(input_.groups.size());
    if (input_.placement)
      measure.placed = Place(*input_.placement, WithoutBos(session.tokens, input_.bos));
    return measure;
  }

  Status Named(Status status, size_t first, size_t last) const {
    if (status) return status;
    const std::string to = first == last ? "" : Cat(" to ", Quoted(sessions_[last].name));
    return std::move(status).error().Within(Cat("session ", Quoted(sessions_[first].name), to));
  }

  // Each window in a slot of its own. What is measured of a window is appended to its session's in
  // the order of the windows, so that it does not depend on how many run at once.
  Status RunWindows(std::span<const EvalWindow> windows) {
    std::vector<SessionMeasure> parts(windows.size());
    size_t longest = 0;
    for (size_t i = 0; i < windows.size(); ++i) {
      slots_[i].StartWindow();
      parts[i].groups.resize(input_.groups.size());
      longest = std::max(longest, windows[i].window.tokens.size());
    }
    for (size_t first = 0; first < longest; first += options_.chunk) {
      std::vector<SlotChunk> chunks;
      for (size_t i = 0; i < windows.size(); ++i) {
        const Window& window = windows[i].window;
        if (first >= window.tokens.size()) continue;
        const Chunk chunk = CutChunk(window, static_cast<uint32_t>(first), options_.chunk);
        chunks.push_back({&slots_[i], &parts[i], chunk});
      }
      SHARD_CHECK(RunChunks(chunks));
    }
    for (size_t i = 0; i < windows.size(); ++i) {
      slots_[i].TakeCaptures(parts[i]);
      Append(std::move(parts[i]), measures_[windows[i].session]);
    }
    return Ok();
  }

  // A chunk, the runs that take it, and where its figures go.
  struct SlotChunk {
    RunSet* runs;
    SessionMeasure* measure;
    Chunk chunk;
    std::vector<float> reference = {};  // the reference's logits of the chunk
  };

  // All runs take a chunk before any takes the next: those of the distribution in one pass, so
  // that their weights are decoded once. Their logits are in memory a slice at a time, those of the
  // reference for all chunks.
  Status RunChunks(std::span<SlotChunk> chunks) {
    SHARD_CHECK(CheckInterrupt());
    bool scored = false;
    for (SlotChunk& slot : chunks) {
      slot.runs->Feeding(slot.chunk.tokens);
      scored = scored || slot.chunk.scored();
    }
    const LogitsOf which = scored ? LogitsOf::kAll : LogitsOf::kLast;
    if (input_.reference) SHARD_CHECK(RunReference(chunks, which));
    std::vector<Part> parts;
    for (SlotChunk& slot : chunks) {
      for (Run* run : slot.runs->own()) parts.push_back({run->session.get(), slot.chunk.tokens});
    }
    if (parts.empty()) {
      for (SlotChunk& slot : chunks) {
        const auto width = static_cast<uint32_t>(slot.reference.size() / slot.chunk.tokens.size());
        if (scored) AddScores(slot.chunk, {0, width, {}, false, slot.reference}, *slot.measure);
      }
      return Ok();
    }
    const size_t own = parts.size() / chunks.size();
    SHARD_CHECK(Feed(parts, which, [&](const LogitsSlice& slice) {
      for (size_t i = 0; i < chunks.size() && scored; ++i) {
        const auto logits = std::span(slice.parts).subspan(i * own, own);
        AddScores(chunks[i].chunk,
                  {slice.first, slice.width, logits, input_.full.has_value(), chunks[i].reference},
                  *chunks[i].measure);
      }
      return Ok();
    }));
    return Ok();
  }

  Status RunReference(std::span<SlotChunk> chunks, LogitsOf which) {
    std::vector<Part> parts;
    for (SlotChunk& slot : chunks)
      parts.push_back({slot.runs->reference.session.get(), slot.chunk.tokens});
    return Feed(parts, which, [&](const LogitsSlice& slice) {
      for (size_t i = 0; i < chunks.size(); ++i) {
        const std::span<const float> rows = slice.parts[i];
        chunks[i].reference.insert(chunks[i].reference.end(), rows.begin(), rows.end());
      }
      return Ok();
    });
  }

  Status Feed(std::span<const Part> parts, LogitsOf which, const SeeLogits& see) {
    SHARD_CHECK(parts.front().session->FeedTogether(parts, which, see));
    uint64_t tokens = 0;
    for (const Part& part : parts) tokens += part.tokens.size();
    Advance(tokens);
    return Ok();
  }

  // Returns the beginning of a session, which the loop test continues.
  std::span<const uint32_t> Prompt(const TokenSession& session) const {
    const size_t longest = options_.context - options_.generate;
    return std::span(session.tokens).first(std::min(session.tokens.size(), longest));
  }

  // Of `count` sessions, each in a slot of its own.
  Status TestLoops(size_t first, size_t count) {
    std::vector<Continuation> reference, own;
    std::vector<std::optional<LoopResult>*> results, reference_results;
    for (size_t i = 0; i < count; ++i) {
      const auto prompt = Prompt(sessions_[first + i]);
      RunSet& runs = slots_[i];
      SessionMeasure& measure = measures_[first + i];
      const auto add = [&](Run& run, std::optional<LoopResult>& result, bool of_reference) {
        (of_reference ? reference : own).push_back({&run, prompt});
        (of_reference ? reference_results : results).push_back(&result);
      };
      if (runs.reference.session && !repeats_) add(runs.reference, measure.reference_loop, true);
      if (runs.full.session && !repeats_) add(runs.full, measure.full_loop, false);
      for (size_t group = 0; group < runs.groups.size(); ++group)
        add(runs.groups[group], measure.groups[group].loop, false);
    }
    SHARD_CHECK(TestLoop(reference, reference_results));
    return TestLoop(own, results);
  }

  Status TestLoop(std::vector<Continuation>& all,
                  std::span<std::optional<LoopResult>* const> results) {
    SHARD_CHECK(ContinueAll(all, input_, options_));
    for (size_t i = 0; i < all.size(); ++i) {
      *results[i] = FindLoop(all[i].generated);
      Advance(all[i].prompt.size() + options_.generate);
    }
    return Ok();
  }

  void Advance(uint64_t tokens) {
    work_.done += tokens;
    if (options_.progress) options_.progress(std::min(work_.done, work_.total), work_.total);
  }

  const EvalInput& input_;
  const std::span<const TokenSession> sessions_;
  const EvalOptions& options_;
  const bool repeats_;
  Work& work_;
  std::vector<RunSet> slots_;
  std::vector<SessionMeasure> measures_;
};

// No window is longer than the first, so checking that one is enough.
Status CheckScored(const TokenSession& session, const EvalOptions& options) {
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

// The input with some of its groups.
EvalInput WithGroups(const EvalInput& input, size_t first, size_t count) {
  EvalInput part = input;
  const auto begin = input.groups.begin() + static_cast<std::ptrdiff_t>(first);
  part.groups.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
  return part;
}

// The passes in which the groups run, one after the other.
std::vector<EvalInput> PassesOf(const EvalInput& input, uint32_t at_once) {
  const size_t all = input.groups.size(), most = at_once == 0 ? all : at_once;
  std::vector<EvalInput> passes;
  size_t first = 0;
  do {
    const size_t count = std::min(most, all - first);
    passes.push_back(WithGroups(input, first, count));
    first += count;
  } while (first < all);
  return passes;
}

// Adds the groups of a later pass.
void AddGroups(std::vector<SessionMeasure>&& pass, std::vector<SessionMeasure>& measures) {
  for (size_t i = 0; i < pass.size(); ++i) {
    std::move(pass[i].groups.begin(), pass[i].groups.end(), std::back_inserter(measures[i].groups));
  }
}

}  // namespace

Result<std::vector<SessionMeasure>> Evaluate(const EvalInput& input,
                                             std::span<const TokenSession> sessions,
                                             const EvalOptions& options) {
  assert(input.reference || input.full);
  assert(options.generate < options.context && options.chunk > 0);
  for (const TokenSession& session : sessions) SHARD_CHECK(CheckScored(session, options));
  const std::vector<EvalInput> passes = PassesOf(input, options.groups_at_once);
  Work work;
  for (const EvalInput& pass : passes) {
    const Evaluator evaluator(pass, sessions, options, &pass != &passes.front(), work);
    for (const TokenSession& session : sessions) work.total += evaluator.WorkOf(session);
  }
  std::vector<SessionMeasure> measures;
  for (const EvalInput& pass : passes) {
    const bool first = &pass == &passes.front();
    Evaluator evaluator(pass, sessions, options, !first, work);
    SHARD_TRY(std::vector<SessionMeasure> found, evaluator.MeasureAll());
    if (first) {
      measures = std::move(found);
    } else {
      AddGroups(std::move(found), measures);
    }
  }
  return measures;
}

}  // namespace moepack::runtime
