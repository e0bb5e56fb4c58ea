// An environment variable for the duration of a test; "" stands for none.
#pragma once

#include <cstdlib>
#include <string>

namespace moepack::remote {

class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    const char* before = std::getenv(name);
    if (before != nullptr) before_ = before;
    Set(value);
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;
  ~ScopedVariable() { Set(before_); }

 private:
  void Set(const std::string& value) {
    value.empty() ? unsetenv(name_) : setenv(name_, value.c_str(), 1);
  }
  const char* name_;
  std::string before_;
};

}  // namespace moepack::remote
