#include "tests/bench/measure.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "libshard/base/text/text.h"

namespace bench {
namespace {

using moepack::Code;
using moepack::Error;

Error SystemError(const std::string& what) {
  return Error{Code::kIo, moepack::Cat(what, ": ", std::strerror(errno))};
}

[[noreturn]] void BecomeCommand(const Command& command) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const int null = open("/dev/null", O_WRONLY);
  if (null >= 0) dup2(null, STDOUT_FILENO);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

std::string Spelled(const Command& command) {
  std::string text;
  for (const std::string& word : command) text += (text.empty() ? "" : " ") + word;
  return text;
}

// Calls `use` with a read-only descriptor of every entry of the tree, the tree itself included.
template <class Use>
Status ForEachOpen(const fs::path& tree, Use use) {
  std::vector<fs::path> paths = {tree};
  for (const auto& entry : fs::recursive_directory_iterator(tree)) paths.push_back(entry.path());
  for (const fs::path& path : paths) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return SystemError(path.string());
    const bool used = use(file);
    close(file);
    if (!used) return SystemError(path.string());
  }
  return moepack::Ok();
}

}  // namespace

Result<Sample> RunCommand(const Command& command) {
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child < 0) return SystemError("fork");
  if (child == 0) BecomeCommand(command);
  int status = 0;
  rusage usage = {};
  if (wait4(child, &status, 0, &usage) != child) return SystemError("wait4");
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return Error{Code::kInvalidArgument, moepack::Cat(Spelled(command), ": expected exit status 0",
                                                      ", found wait status ", status)};
  }
  return Sample{elapsed.count(), Seconds(usage.ru_utime) + Seconds(usage.ru_stime),
                static_cast<uint64_t>(usage.ru_maxrss) * 1024};
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double MedianSeconds(const std::vector<Sample>& samples) {
  std::vector<double> seconds;
  for (const Sample& sample : samples) seconds.push_back(sample.seconds);
  return Median(std::move(seconds));
}

double MedianCpuSeconds(const std::vector<Sample>& samples) {
  std::vector<double> seconds;
  for (const Sample& sample : samples) seconds.push_back(sample.cpu_seconds);
  return Median(std::move(seconds));
}

uint64_t HighestPeak(const std::vector<Sample>& samples) {
  uint64_t highest = 0;
  for (const Sample& sample : samples) highest = std::max(highest, sample.peak_bytes);
  return highest;
}

uint64_t TreeBytes(const fs::path& tree) {
  uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(tree)) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  return bytes;
}

Status FlushTree(const fs::path& tree) {
  return ForEachOpen(tree, [](int file) { return fsync(file) == 0; });
}

Status WarmTree(const fs::path& tree) {
  std::vector<char> buffer(size_t{4} << 20);
  return ForEachOpen(tree, [&buffer](int file) {
    ssize_t count = 0;
    do {
      count = read(file, buffer.data(), buffer.size());
    } while (count > 0);
    return count == 0 || errno == EISDIR;
  });
}

Status ChillTree(const fs::path& tree) {
  SHARD_CHECK(FlushTree(tree));
  return ForEachOpen(tree, [](int file) {
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);  // directories refuse, which does not matter
    return true;
  });
}

}  // namespace bench
