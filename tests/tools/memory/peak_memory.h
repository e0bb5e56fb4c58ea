// How much memory a run of moepack had resident at most.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

namespace moepack::cli {

inline constexpr long kMegabyte = 1'000'000 / 1024;  // ru_maxrss counts KiB

// KiB that `moepack arguments...` had resident at most. It is expected to succeed.
inline long PeakMemory(const std::vector<std::string>& arguments) {
  std::vector<char*> argv = {const_cast<char*>(MOEPACK_BINARY)};
  for (const std::string& word : arguments) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    if (!freopen("/dev/null", "w", stdout)) _exit(126);
    execv(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  rusage usage = {};
  EXPECT_EQ(wait4(child, &status, 0, &usage), child);
  EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
  return usage.ru_maxrss;
}

}  // namespace moepack::cli
