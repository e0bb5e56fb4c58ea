// The instruction sets for which Highway compiled the kernels of quant/, and a switch between them.
#pragma once

#include <hwy/targets.h>

#include <cstdint>
#include <string>
#include <vector>

namespace quant {

struct InstructionSet {
  int64_t target;    // one bit: HWY_AVX3, HWY_AVX2 ...
  bool present;      // this machine has it
  std::string name;  // "AVX-512", "scalar"
};

inline std::string InstructionSetName(int64_t target) {
  const std::string name = hwy::TargetName(target);
  if (name == "AVX3") return "AVX-512";
  if (name == "SCALAR" || name == "EMU128") return "scalar";
  return name;
}

// Widest first; the last one is always present. REQUIRES: no OnInstructionSet lives.
inline std::vector<InstructionSet> InstructionSets() {
  std::vector<InstructionSet> sets;
  const int64_t present = hwy::SupportedTargets();
  for (int64_t left = HWY_TARGETS; left != 0; left &= left - 1) {
    const int64_t target = left & ~(left - 1);
    sets.push_back({target, (present & target) != 0, InstructionSetName(target)});
  }
  return sets;
}

// While it lives, kernels run on this instruction set. REQUIRES: it is present; one at a time, made
// while no other thread is in a kernel.
class OnInstructionSet {
 public:
  explicit OnInstructionSet(int64_t target) { hwy::SetSupportedTargetsForTest(target); }
  OnInstructionSet(const OnInstructionSet&) = delete;
  OnInstructionSet& operator=(const OnInstructionSet&) = delete;
  ~OnInstructionSet() { hwy::SetSupportedTargetsForTest(0); }
};

// The one that kernels currently run on.
inline std::string CurrentInstructionSet() {
  return InstructionSetName(hwy::SupportedAndGeneratedTargets().front());
}

}  // namespace quant
