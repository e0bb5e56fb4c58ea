// The rows of an experiment: what was done to the model, and what it cost on each session.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime-shim/experiment/estimate.h"
#include "runtime-shim/experiment/figures.h"

namespace moepack::runtime {

struct ExperimentRow {
  std::string strategy;  // that assigned experts to nodes; "": no split
  std::string recipe;    // of quantization; "": weights as stored
  // A node of the row: how many experts of a layer it may pick from, and its bytes. The largest of
  // all nodes; no value without a split.
  std::optional<uint64_t> eligible, node_bytes;
  std::vector<SessionFigures> sessions;  // in the order of OrderSessions
  bool refitted = false;                 // the experts that nodes keep
  bool calibrated = false;               // the quantized weights; not with `refitted`

  // "split, ranked", "quantization, Q4_K_M", "both, ranked, Q4_K_M", "calibrated, Q4_K_M",
  // "calibrated, ranked, Q4_K_M", "refit, ranked", "refit, ranked, Q4_K_M".
  std::string label() const;
};

// The value of one figure of a session.
using Figure = double NodeFigures::*;

Estimate EstimateRow(const ExperimentRow& row, Choice choice, Figure figure);
// Differences a - b, paired by session, under the same choice. REQUIRES: the same sessions.
Estimate EstimateDifference(const ExperimentRow& a, const ExperimentRow& b, Choice choice,
                            Figure figure);

// The row that `row` is compared with: for a calibrated or refitted row the same without that; for
// others the first split of the same recipe. Null for that row itself and for quantization alone.
const ExperimentRow* BaselineOf(const ExperimentRow& row, std::span<const ExperimentRow> rows);

// The criterion of the stopping rule: the largest standard error of the mean divergence over the
// first `count` sessions, each on the node that captures most of it. REQUIRES: that many sessions.
double LargestError(std::span<const ExperimentRow> rows, size_t count);

}  // namespace moepack::runtime
