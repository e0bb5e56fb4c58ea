// Runs the program where the stack is large enough, whatever `ulimit -s` says.
#pragma once

#include <functional>

namespace moepack::cli {

// Calls `work` and returns its result: on a thread with a stack of the usual size if the main
// thread has a smaller one. Threads that are started from there have the usual size, too. Prints an
// error and returns kExitInternal if there can be no such thread.
int RunWithStack(const std::function<int()>& work);

}  // namespace moepack::cli
