// A program that serves on 127.0.0.1 for the duration of a test.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace moepack::remote {

// The path of a program, or "": in PATH or /usr/sbin.
std::string FindProgram(const std::string& name);

class RealServer {
 public:
  // The command line of a program that serves on `port` and stays in the foreground; the first word
  // is the path of the program.
  using CommandFor = std::function<std::vector<std::string>(uint16_t port)>;

  // Returns once the program accepts connections or could not be started on five ports; its output
  // goes to `log`. It is killed with this object, and by the kernel if the test dies.
  // `port`: only this one, for a program that is restarted; 0 for any.
  RealServer(const CommandFor& command, const std::filesystem::path& log, uint16_t port = 0);
  RealServer(const RealServer&) = delete;
  RealServer& operator=(const RealServer&) = delete;
  ~RealServer();

  bool started() const { return process_ > 0; }
  uint16_t port() const { return port_; }

 private:
  void Stop();
  bool WaitUntilItAccepts();

  pid_t process_ = 0;
  uint16_t port_ = 0;
};

}  // namespace moepack::remote
