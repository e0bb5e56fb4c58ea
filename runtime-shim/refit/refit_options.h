// What determines a refit, besides model, plan and text; and how the record of a refit stores it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/refit/refit_record.h"

namespace moepack::runtime {

// The names of the steps.
inline constexpr const char* kRidgeStep = "ridge";
inline constexpr const char* kRefillStep = "refill";
inline constexpr const char* kRouterStep = "router";
inline constexpr const char* kTuneStep = "tune";

// Of a tuning: usually, and at most.
inline constexpr uint32_t kUsualUpdates = 200, kMostUpdates = 1u << 20;

// The executor that a record means when it names none.
inline constexpr const char* kRefitExecutor = "cpu";

struct RefitOptions {
  std::vector<std::string> steps = {kRidgeStep, kRefillStep, kTuneStep, kRidgeStep};
  double lambda = 0.01;
  uint64_t pool = 0;                 // neurons that join an expert; 0: as many as it has
  uint64_t tokens = 0;               // at most about this many per bucket; 0: all
  uint32_t context = 512;            // of a window
  uint32_t fold = 8;                 // one in this many sessions or windows is held out
  uint32_t sweeps = 3;               // of ridge regression expert by expert
  uint32_t updates = kUsualUpdates;  // of a tuning
  uint64_t least_tokens = 600;       // an expert with fewer stays as it is
  uint32_t top_k = 0;                // experts that a token uses on the nodes; 0: as in the model
  double foreign_weight = 0.1;       // of text that other groups are for
  uint64_t memory = 4ull << 30;      // bytes, about; decides whether ridge regression is joint
  // Where products are computed; executors round differently. The run opens it.
  std::string executor = kRefitExecutor;

  // The following options do not affect the values.
  std::string scratch = "";  // directory for what does not fit in memory
  uint32_t jobs = 0;         // threads of the host; 0: one per core

  // The share of `memory` for matrices; rows take half (refit.cc).
  uint64_t matrix_memory() const { return memory / 4; }
  // The share for the activations of a node's experts, which are made again if it is too small.
  uint64_t activation_memory() const { return memory / 8; }
  // For experts as they were before a step; more go to `scratch`.
  uint64_t before_memory() const { return memory / 8; }
};

// kInvalidArgument for a step that does not exist, or if there are none. `where` starts the
// message.
Status CheckSteps(const std::string& where, const std::vector<std::string>& steps);

// Sets steps and parameters of the record.
void RecordOptions(const RefitOptions& options, RefitRecord& record);
// The options that produced this record. kCorrupt, with `where`, for parameters that are missing or
// not numbers.
Result<RefitOptions> OptionsOf(const std::string& where, const RefitRecord& record);

}  // namespace moepack::runtime
