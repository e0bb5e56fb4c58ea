#include "runtime-shim/executors.h"

#include "libshard/text.h"
#include "runtime-shim/cpu/cpu.h"
#include "runtime-shim/cuda/cuda.h"

namespace runtime {
namespace {

using shard::Cat;
using shard::Code;
using shard::Error;

std::string Names() {
  std::string names;
  for (const ExecutorKind& kind : AllExecutorKinds())
    names += Cat(names.empty() ? "" : ", ", kind.name);
  return names;
}

}  // namespace

std::span<const ExecutorKind> AllExecutorKinds() {
  static const ExecutorKind kKinds[] = {
      {"cpu", nullptr, OpenCpu, CpuDevices},
      {"cuda", kCudaMissing, OpenCuda, CudaDevices},
  };
  return kKinds;
}

shard::Result<std::unique_ptr<Executor>> OpenExecutor(const std::string& name,
                                                      const ExecutorOptions& options) {
  for (const ExecutorKind& kind : AllExecutorKinds()) {
    if (name != kind.name) continue;
    if (kind.missing != nullptr)
      return Error{Code::kUnsupported,
                   Cat("executor ", name, ": this build does not have it: ", kind.missing)};
    return kind.open(options);
  }
  return Error{Code::kInvalidArgument,
               Cat("executor: expected one of ", Names(), ", found ", shard::Quoted(name))};
}

}  // namespace runtime
