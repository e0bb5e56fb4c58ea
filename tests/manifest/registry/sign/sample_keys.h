// Keys that are made once for all tests, and OpenSSL's program for comparison.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "fixtures/temp_dir.h"
#include "manifest/registry/sign/keys.h"

namespace moepack::registry {

inline PrivateKey NewKey(KeyType type = KeyType::kP256) {
  auto key = PrivateKey::Generate(type);
  if (!key) throw std::runtime_error(key.error().message);
  return *std::move(key);
}

inline Secret Words(std::string_view text) { return Secret(text); }

// Runs a shell command in a directory; its output goes to the file "log" there.
inline bool ShellRuns(const std::filesystem::path& directory, const std::string& command) {
  const std::string whole = "cd '" + directory.string() + "' && { " + command + "; } >log 2>&1";
  return std::system(whole.c_str()) == 0;
}
inline bool HasOpenssl() { return std::system("command -v openssl >/dev/null 2>&1") == 0; }

}  // namespace moepack::registry
