// The libraries of the emulated device are part of the program.
#include "runtime-shim/cuda/libraries.h"

namespace moepack::runtime::cuda {

Result<Libraries> OpenLibraries() {
  if (emulation::TheMachine().libraries == emulation::Libraries::kMissing)
    return Error{Code::kUnavailable, "cuda: no such library", kInstallLibraries};
  Libraries found;
#define MOEPACK_TAKE(member, name) found.member = &name;
  MOEPACK_CUBLAS(MOEPACK_TAKE)
  MOEPACK_CUSOLVER(MOEPACK_TAKE)
  return found;
}

}  // namespace moepack::runtime::cuda
