// Divides the work of writing outputs among tasks that know nothing of each other. Each computes
// the same division on its own, because it depends only on the outputs and the number of tasks.
#pragma once

#include <cstdint>
#include <vector>

#include "libshard/format/output_file.h"
#include "libshard/tasks/fragments.h"

namespace moepack {

inline constexpr uint32_t kMaxTasks = 1u << 16;

// Task `index` of `count`, counted from 0.
struct TaskNumber {
  uint32_t index = 0, count = 1;
  bool operator==(const TaskNumber&) const = default;
};

// What a task has to do.
struct TaskLoad {
  uint64_t read = 0, written = 0;  // bytes
  uint64_t work = 0;               // both, plus the cost of encoding
};

// Tasks get runs of the work in the order of the sources, so that each reads one stretch of them
// and makes what several outputs contain only once. No task differs from another by more than two
// fragments, each a 64th of a task's share or one expert's rows of a tensor. With more tasks than
// fragments, some have nothing to do.
class WorkDivision {
 public:
  // REQUIRES: `tasks` is at least 1 and at most kMaxTasks.
  WorkDivision(const std::vector<OutputFile>& outputs, uint32_t tasks);

  const std::vector<TaskLoad>& loads() const { return loads_; }
  // The fragments of a task, by output, tensor and offset.
  std::vector<Fragment> Of(uint32_t task) const;

 private:
  std::vector<TaskLoad> loads_;
  std::vector<Fragment> fragments_;  // by output, tensor and offset
  std::vector<uint32_t> task_;       // of each fragment
};

// The largest load divided by the mean: 1 if all are equal, or if there is nothing to do.
double Imbalance(const std::vector<TaskLoad>& loads, uint64_t TaskLoad::*what);

}  // namespace moepack
