#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <new>
#include <string_view>

#include "libshard/base/parallel.h"
#include "libshard/base/text/quote.h"
#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/stack.h"

namespace {

constexpr std::string_view kOutOfMemory =
    "error: out of memory\nhint: try a smaller --memory or fewer --jobs\n";

// Memory may also run out where no exception may escape: in a destructor, or in a library's
// noexcept function. It is not always known then which exception it was. The run ends as if it had
// been killed, except for the message and the status.
std::atomic<bool> memory_ran_out = false;

void OnNoMemory() {
  memory_ran_out = true;
  throw std::bad_alloc();
}

// ENOMEM of a system call is thrown as std::bad_alloc without the handler above.
bool IsBadAlloc(const std::exception_ptr& thrown) {
  if (thrown == nullptr) return false;
  try {
    std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    return true;
  } catch (...) {
    return false;
  }
}

[[noreturn]] void OnTerminate() {
  if (!memory_ran_out && !IsBadAlloc(std::current_exception())) std::abort();
  (void)!write(STDERR_FILENO, kOutOfMemory.data(), kOutOfMemory.size());
  _exit(moepack::cli::kExitInternal);
}

int RunCommands(int argc, char** argv) {
  try {
    return moepack::cli::RunCommandLine(moepack::cli::kListedCommands, argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs(kOutOfMemory.data(), stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: internal: %s\n", moepack::Shown(error.what()).c_str());
  }
  return moepack::cli::kExitInternal;
}

}  // namespace

int main(int argc, char** argv) {
  // By default the first large block that is freed, such as the text of an index, raises the size
  // from which blocks are returned to the system, and later ones leave holes.
  mallopt(M_MMAP_THRESHOLD, 4 << 20);
  // A write beyond `ulimit -f` is then an error like any other (EFBIG).
  std::signal(SIGXFSZ, SIG_IGN);
  std::set_new_handler(OnNoMemory);
  std::set_terminate(OnTerminate);
  return moepack::cli::RunWithStack([&] { return RunCommands(argc, argv); });
}
