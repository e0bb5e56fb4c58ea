// A moepack that runs while the test watches it, to be interrupted.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "fixtures/temp_dir.h"
#include "tests/tools/run_moepack.h"

namespace moepack::cli {

struct InterruptedRun {
  bool reached = false;  // the moment at which it was to be interrupted
  bool ended = false;    // before the timeout
  int status = -1;       // its exit status; -1 if a signal ended it
  std::string err;
  std::vector<std::string> left;  // in its TMPDIR
};

// What a test can observe of a running moepack.
struct RunningMoepack {
  pid_t process = 0;
  const std::filesystem::path& scratch;  // its TMPDIR
};

// Runs moepack in the workspace with a separate TMPDIR, sends `signal` as soon as `moment` is true,
// and waits for the end.
inline InterruptedRun Interrupt(const Workspace& workspace, std::vector<std::string> arguments,
                                int signal,
                                const std::function<bool(const RunningMoepack&)>& moment) {
  constexpr auto kPatience = std::chrono::seconds(20);
  const fixtures::TempDir scratch, logs;
  const std::string log = (logs / "err").string();
  const pid_t child = fork();
  if (child == 0) {
    std::vector<char*> argv = {const_cast<char*>("moepack")};
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    setenv("TMPDIR", scratch.path().c_str(), 1);
    const int out = open("/dev/null", O_WRONLY), err = open(log.c_str(), O_WRONLY | O_CREAT, 0600);
    if (chdir(workspace.path().c_str()) == 0 && dup2(out, 1) == 1 && dup2(err, 2) == 2)
      execv(MOEPACK_BINARY, argv.data());
    _exit(127);
  }
  InterruptedRun run;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  int status = 0;
  while (!run.ended && std::chrono::steady_clock::now() < end) {
    if (!run.reached && moment({child, scratch.path()})) {
      run.reached = true;
      kill(child, signal);
    }
    run.ended = waitpid(child, &status, WNOHANG) == child;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  if (!run.ended) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
  }
  run.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  run.err = ReadFile(log);
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path()))
    run.left.push_back(entry.path().filename().string());
  return run;
}

// A moment: a file of weights is open or mapped. Files are open only until they are mapped, which
// is too short for a test on a busy machine to notice; mappings stay.
inline bool ReadsWeights(const RunningMoepack& running) {
  const std::filesystem::path process = "/proc/" + std::to_string(running.process);
  std::error_code error;
  for (std::filesystem::directory_iterator it(process / "fd", error), end; !error && it != end;
       it.increment(error)) {
    std::error_code gone;
    if (std::filesystem::read_symlink(*it, gone).extension() == ".safetensors") return true;
  }
  std::ifstream mappings(process / "maps");
  for (std::string line; std::getline(mappings, line);)
    if (line.ends_with(".safetensors")) return true;
  return false;
}

}  // namespace moepack::cli
