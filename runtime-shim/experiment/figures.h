// What one row of an experiment measured on one session, relative to the whole model as stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime-shim/eval/evaluate.h"

namespace moepack::runtime {

// Means over the scored tokens of a session.
struct NodeFigures {
  double kld = 0;      // of the model from the node, in nats
  double loss = 0;     // log-probability that the node loses, in nats
  double top1 = 0;     // share of tokens with the same best continuation
  double capture = 0;  // share of the model's gates on experts of the node, averaged over layers
};

struct SessionFigures {
  std::string name, bucket;
  uint64_t tokens = 0;             // scored
  std::vector<NodeFigures> nodes;  // one per group; one in a row without a split
  uint32_t raced = 0;              // the group that won the race
};

// The node to which a session is sent.
enum class Choice : uint8_t {
  kCapture,  // the one that captures most of it
  kRace,     // the winner of the race
  kBest,     // the one with the lowest divergence: the best that a choice could reach
  kAny,      // any: the mean over nodes
};
inline constexpr Choice kChoices[] = {Choice::kCapture, Choice::kRace, Choice::kBest, Choice::kAny};
std::string_view NameOf(Choice choice);  // "capture", "race", "best", "any"

// The lowest if several are equal. REQUIRES: at least one node.
NodeFigures Under(Choice choice, const SessionFigures& session);

// Groups of an EvalInput; none means the unmasked weights.
struct GroupRange {
  size_t first = 0, count = 0;
};

// Summarizes a session for the groups of one row. The model is input.reference or, without one,
// input.full. REQUIRES: `measure` is what Evaluate returned for `input`; a reference, if there are
// no groups.
SessionFigures FiguresOf(const EvalInput& input, const SessionMeasure& measure, GroupRange groups,
                         uint32_t race_tokens);

}  // namespace moepack::runtime
