// Credential helpers written by a test: shell scripts in a separate PATH.
#pragma once

#include <sys/stat.h>

#include <cstdlib>
#include <string>

#include "fixtures/temp_dir.h"

namespace moepack::registry {

class HelperScripts {
 public:
  HelperScripts() : before_(std::getenv("PATH")) {
    setenv("PATH", (dir_.path().string() + ":" + before_).c_str(), 1);
  }
  HelperScripts(const HelperScripts&) = delete;
  HelperScripts& operator=(const HelperScripts&) = delete;
  ~HelperScripts() { setenv("PATH", before_.c_str(), 1); }

  // `body` is shell text.
  void Add(const std::string& program, const std::string& body) const {
    fixtures::WriteFile(dir_ / program, "#!/bin/sh\n" + body + "\n");
    chmod((dir_ / program).c_str(), 0700);
  }
  std::string Path(const std::string& name) const { return dir_ / name; }
  std::string Read(const std::string& name) const { return fixtures::ReadFile(dir_ / name); }

 private:
  fixtures::TempDir dir_;
  std::string before_;
};

}  // namespace moepack::registry
