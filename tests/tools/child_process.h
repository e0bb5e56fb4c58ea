// A run of moepack that the test stops, limits or kills during its work.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {

// How it ended: `status` is -1 if a signal ended it.
struct ChildEnd {
  int status = -1, signal = 0;
  std::string out, err;
};

class ChildProcess {
 public:
  // Starts `moepack arguments...` in `directory`; `prepare` runs in the child first.
  ChildProcess(const std::filesystem::path& directory, const std::vector<std::string>& arguments,
               const std::function<void()>& prepare = {}) {
    std::vector<char*> argv = {const_cast<char*>(MOEPACK_BINARY)};
    for (const std::string& word : arguments) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    const std::string out = logs_ / "out", err = logs_ / "err";
    pid_ = fork();
    if (pid_ != 0) return;
    const bool ready = chdir(directory.c_str()) == 0 && freopen(out.c_str(), "w", stdout) &&
                       freopen(err.c_str(), "w", stderr);
    if (!ready) _exit(126);
    if (prepare) prepare();
    execv(argv[0], argv.data());
    _exit(127);
  }
  ~ChildProcess() {
    if (!ended_) Kill(SIGKILL), Wait();
  }

  pid_t pid() const { return pid_; }
  void Kill(int signal) const { kill(pid_, signal); }

  // Waits until /proc/PID/maps names a file that ends in `name`. False if the process ended first.
  bool WaitUntilMapped(const std::string& name) const {
    const std::string maps = "/proc/" + std::to_string(pid_) + "/maps";
    while (true) {
      siginfo_t info = {};
      waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
      if (info.si_pid != 0) return false;
      if (ReadFile(maps).find(name + "\n") != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  ChildEnd Wait() {
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    ended_ = true;
    ChildEnd end;
    if (WIFEXITED(status)) end.status = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
    end.out = ReadFile(logs_ / "out");
    end.err = ReadFile(logs_ / "err");
    return end;
  }

 private:
  fixtures::TempDir logs_;
  pid_t pid_ = -1;
  bool ended_ = false;
};

}  // namespace moepack::cli
