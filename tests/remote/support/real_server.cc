#include "tests/remote/support/real_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "libshard/base/text/text.h"

namespace moepack::remote {
namespace {

constexpr int kPorts = 5;

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

uint16_t FreePort() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  bind(listener, reinterpret_cast<sockaddr*>(&address), size);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  close(listener);
  return ntohs(address.sin_port);
}

bool Accepts(uint16_t port) {
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(port);
  const bool accepted =
      connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(connection);
  return accepted;
}

// Between fork and exec, only what is allowed in a signal handler.
pid_t Launch(const std::vector<std::string>& command, const std::filesystem::path& log) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const pid_t test = getpid();
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != test) _exit(127);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execv(words[0], words.data());
    _exit(127);
  }
  close(out);
  return child;
}

}  // namespace

std::string FindProgram(const std::string& name) {
  const char* path = std::getenv("PATH");
  for (const std::string& folder : Split(Cat(path == nullptr ? "" : path, ":/usr/sbin"), ':')) {
    const std::string file = Cat(folder, "/", name);
    if (!folder.empty() && access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

RealServer::RealServer(const CommandFor& command, const std::filesystem::path& log, uint16_t port) {
  for (int tried = 0; tried < kPorts && process_ == 0; ++tried) {
    port_ = port == 0 ? FreePort() : port;
    process_ = Launch(command(port_), log);
    if (!WaitUntilItAccepts()) Stop();
  }
}

RealServer::~RealServer() { Stop(); }

void RealServer::Stop() {
  if (process_ <= 0) return;
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
  process_ = 0;
}

// False once the program has ended.
bool RealServer::WaitUntilItAccepts() {
  while (process_ > 0) {
    if (Accepts(port_)) return true;
    if (waitpid(process_, nullptr, WNOHANG) != 0) process_ = 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace moepack::remote
