// The list of executors; one row each in executors.cc.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "runtime-shim/executor/executor.h"

namespace moepack::runtime {

std::span<const ExecutorKind> AllExecutorKinds();
// Opens an executor by name. kInvalidArgument for an unknown name, kUnsupported for one that this
// build lacks.
Result<std::unique_ptr<Executor>> OpenExecutor(const std::string& name,
                                               const ExecutorOptions& options);

}  // namespace moepack::runtime
