// A separate home directory for the test, without the user's variables that lead to credentials.
#pragma once

#include <filesystem>
#include <string>

#include "fixtures/temp_dir.h"
#include "tests/remote/support/scoped_variable.h"

namespace moepack::registry {

class CredentialHome {
 public:
  void Write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((dir_ / file).parent_path());
    fixtures::WriteFile(dir_ / file, text);
  }
  std::string Path(const std::string& file) const { return dir_ / file; }

 private:
  using Variable = remote::ScopedVariable;
  fixtures::TempDir dir_;
  Variable home_{"HOME", dir_.path().string()}, docker_{"DOCKER_CONFIG", ""},
      file_{"REGISTRY_AUTH_FILE", ""}, runtime_{"XDG_RUNTIME_DIR", ""},
      config_{"XDG_CONFIG_HOME", ""}, user_{"MOEPACK_REGISTRY_USERNAME", ""},
      password_{"MOEPACK_REGISTRY_PASSWORD", ""}, token_{"MOEPACK_REGISTRY_TOKEN", ""};
};

}  // namespace moepack::registry
