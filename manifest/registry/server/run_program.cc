#include "manifest/registry/server/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <csignal>
#include <optional>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/file.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"

namespace moepack::registry {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostErrors = 4096;
constexpr int kLookAgain = 20;  // ms

struct Pipe {
  Descriptor reader, writer;
};

Result<Pipe> MakePipe(const std::string& name) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Error{Code::kIo, Cat(name, ": pipe: ", ErrnoText(errno))};
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

// The input is written before there is a reader that could disappear, so there can be no SIGPIPE.
Result<Descriptor> PipeWith(const std::string& name, std::string_view input) {
  SHARD_TRY(Pipe pipe, MakePipe(name));
  const ssize_t written = write(pipe.writer.get(), input.data(), input.size());
  if (written != static_cast<ssize_t>(input.size()))
    return Error{Code::kIo, Cat(name, ": standard input: ", ErrnoText(errno))};
  return std::move(pipe.reader);
}

// The arguments of posix_spawn; its functions only fail for lack of memory.
class SpawnPlan {
 public:
  SpawnPlan(int input, int output, int errors) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_adddup2(&actions_, input, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, errors, STDERR_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }

  // Returns the error, or 0.
  int Start(const std::vector<std::string>& words, pid_t& process) const {
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    return posix_spawnp(&process, arguments[0], &actions_, &attributes_, arguments.data(), environ);
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

// A program that was started. By the time this object is destroyed, it has exited and was waited
// for.
class RunningProgram {
 public:
  RunningProgram(pid_t process, Descriptor output, Descriptor errors)
      : process_(process), output_(std::move(output)), errors_(std::move(errors)) {
    for (const Descriptor* end : {&output_, &errors_}) fcntl(end->get(), F_SETFL, O_NONBLOCK);
  }
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;
  ~RunningProgram() {
    if (ended_) return;
    kill(-process_, SIGKILL);
    while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  // Waits until it exits, but not for children that still hold its streams.
  Result<ProgramRun> Finish(const std::string& name, const ProgramLimits& limits) {
    const Clock::time_point end = Clock::now() + limits.time;
    for (;;) {
      SHARD_CHECK(CheckInterrupt());
      Look();
      Take(output_, run_.output, limits.output + 1);
      Take(errors_, run_.errors, kMostErrors);
      if (run_.output.size() > limits.output) {
        return Error{Code::kCorrupt, Cat(name, ": expected at most ", limits.output,
                                         " bytes of output, found more")};
      }
      if (ended_) return std::move(run_);
      if (Clock::now() >= end) {
        return Error{Code::kUnavailable,
                     Cat(name, ": expected an end within ",
                         std::chrono::duration<double>(limits.time).count(), " s, found none")};
      }
      Wait();
    }
  }

 private:
  void Look() {
    int status = 0;
    const pid_t found = waitpid(process_, &status, WNOHANG);
    if (found == 0 || (found < 0 && errno == EINTR)) return;
    ended_ = true;
    if (found < 0) return;  // other code in this process waited for it: the status is unknown
    run_.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  // What exceeds `most` is read and dropped.
  static void Take(Descriptor& from, std::string& text, size_t most) {
    char bytes[4096];
    while (from.valid()) {
      const ssize_t got = read(from.get(), bytes, sizeof(bytes));
      if (got < 0) return;
      if (got == 0) from = Descriptor();
      text.append(bytes, std::min(static_cast<size_t>(got), most - text.size()));
      if (text.size() >= most && got > 0) return;  // the caller checks the clock again
    }
  }

  void Wait() const {
    pollfd ends[2];
    nfds_t count = 0;
    for (const Descriptor* end : {&output_, &errors_}) {
      if (end->valid()) ends[count++] = {end->get(), POLLIN, 0};
    }
    poll(ends, count, kLookAgain);
  }

  pid_t process_;
  Descriptor output_, errors_;
  ProgramRun run_;
  bool ended_ = false;
};

}  // namespace

Result<ProgramRun> RunProgram(const std::vector<std::string>& words, std::string_view input,
                              const ProgramLimits& limits) {
  assert(!words.empty() && input.size() <= kMostProgramInput);
  const std::string& name = words[0];
  SHARD_TRY(Descriptor in, PipeWith(name, input));
  SHARD_TRY(Pipe out, MakePipe(name));
  SHARD_TRY(Pipe err, MakePipe(name));
  pid_t process = 0;
  const SpawnPlan plan(in.get(), out.writer.get(), err.writer.get());
  if (const int error = plan.Start(words, process); error != 0) {
    // A directory of PATH that may not be searched results in EACCES.
    const bool absent = error == ENOENT || error == EACCES || error == ENOTDIR;
    return Error{
        absent ? Code::kNotFound : Code::kIo,
        Cat(name, ": ",
            absent ? "expected in PATH, found nowhere that it may be run" : ErrnoText(error))};
  }
  in = Descriptor();
  out.writer = Descriptor();
  err.writer = Descriptor();
  RunningProgram program(process, std::move(out.reader), std::move(err.reader));
  return program.Finish(name, limits);
}

}  // namespace moepack::registry
