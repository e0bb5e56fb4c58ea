#include "tests/remote/support/docker_registry.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "fixtures/temp_dir.h"
#include "libshard/base/text/text.h"

namespace moepack::remote {
namespace {

// 127.0.0.1 - - [23/Nov/2026:05:00:00 +0000] "HEAD /v2/x/blobs/sha256:... HTTP/1.1" 404 157 ...
std::optional<DockerRegistry::Request> LoggedRequest(const std::string& line) {
  const size_t open = line.find("] \"");
  if (!line.starts_with("127.0.0.1 ") || open == std::string::npos) return std::nullopt;
  std::istringstream words(line.substr(open + 3));
  DockerRegistry::Request request;
  std::string protocol;
  if (words >> request.method >> request.path >> protocol >> request.status) return request;
  return std::nullopt;
}

}  // namespace

DockerRegistry::Settings DockerRegistry::WithPassword(const std::filesystem::path& file) {
  // bcrypt of "confidential", as `htpasswd -B` makes it.
  std::ofstream(file) << "me:$2b$04$BswKkXRj/lF7mmSHlkz7eeznJpZWfvEkOsuST4PrN3I8sMsygsR4O\n";
  Settings settings;
  settings.more = Cat("auth:\n  htpasswd:\n    realm: test\n    path: ", file.string(), "\n");
  return settings;
}

DockerRegistry::DockerRegistry(const std::filesystem::path& directory, Settings settings)
    : directory_(directory), settings_(std::move(settings)) {
  std::filesystem::create_directories(directory_ / "storage");
  Start(0);
}

void DockerRegistry::Start(uint16_t port) {
  server_.emplace([this](uint16_t at) { return Command(at); }, directory_ / "log", port);
}

void DockerRegistry::Restart() {
  const uint16_t port = server_->port();
  server_.reset();
  Start(port);
}

bool DockerRegistry::CollectGarbage() {
  const uint16_t port = server_->port();
  server_.reset();
  const std::string command =
      Cat("'", FindProgram("docker-registry"), "' garbage-collect --delete-untagged '",
          (directory_ / "config.yml").string(), "' >/dev/null 2>&1");
  const bool collected = std::system(command.c_str()) == 0;
  Start(port);
  return collected;
}

std::vector<std::string> DockerRegistry::Command(uint16_t port) const {
  const std::filesystem::path config = directory_ / "config.yml";
  std::ofstream(config) << Cat(
      "version: 0.1\nlog:\n  accesslog:\n    disabled: false\n  level: info\nstorage:\n"
      "  filesystem:\n    rootdirectory: ",
      (directory_ / "storage").string(),
      "\n  delete:\n    enabled: true\n  maintenance:\n    uploadpurging:\n      enabled: false\n",
      settings_.more, "http:\n  addr: 127.0.0.1:", port, "\n",
      settings_.secret.empty() ? "" : Cat("  secret: ", settings_.secret, "\n"), settings_.http);
  return {FindProgram("docker-registry"), "serve", config.string()};
}

std::string DockerRegistry::host() const { return Cat("127.0.0.1:", port()); }

std::string DockerRegistry::Log() const { return fixtures::ReadFile(directory_ / "log"); }

std::vector<DockerRegistry::Request> DockerRegistry::requests() const {
  std::vector<Request> out;
  for (const std::string& line : Split(Log().substr(forgotten_), '\n')) {
    if (auto request = LoggedRequest(line)) out.push_back(*std::move(request));
  }
  return out;
}

void DockerRegistry::Forget() { forgotten_ = Log().size(); }

// A blob is written first, then the file `link` in its repository.
std::set<std::string> DockerRegistry::BlobsOf(const std::string& repository) const {
  const std::filesystem::path layers =
      directory_ / "storage/docker/registry/v2/repositories" / repository / "_layers/sha256";
  std::set<std::string> digests;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(layers, none)) {
    const auto size = std::filesystem::file_size(entry.path() / "link", none);
    if (!none && size > 0) digests.insert(Cat("sha256:", entry.path().filename().string()));
  }
  return digests;
}

std::filesystem::path DockerRegistry::BlobPath(const std::string& digest) const {
  const std::string hex = digest.substr(digest.find(':') + 1);
  return directory_ / "storage/docker/registry/v2/blobs/sha256" / hex.substr(0, 2) / hex / "data";
}

}  // namespace moepack::remote
