// Debian's docker-registry (2.8), on 127.0.0.1 for the duration of a test.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/remote/support/real_server.h"

namespace moepack::remote {

class DockerRegistry {
 public:
  struct Settings {
    // With it, uploads resume after a restart.
    std::string secret = {};
    // More lines of YAML: below `http:` with two blanks in front (`  tls:\n    certificate: ...`),
    // and at the top (`auth:\n  htpasswd: ...`).
    std::string http = {}, more = {};
  };
  // A line of the access log.
  struct Request {
    std::string method, path;  // including the query
    int status = 0;
  };

  // For those who log in as "me" with the password "confidential"; writes `file`, as htpasswd does.
  static Settings WithPassword(const std::filesystem::path& file);
  static bool IsInstalled() { return !FindProgram("docker-registry").empty(); }

  // Keeps everything in `directory`, which is created. started() says whether it runs.
  explicit DockerRegistry(const std::filesystem::path& directory)
      : DockerRegistry(directory, Settings()) {}
  DockerRegistry(const std::filesystem::path& directory, Settings settings);

  bool started() const { return server_ && server_->started(); }
  uint16_t port() const { return server_->port(); }
  std::string host() const;  // "127.0.0.1:4711"
  // Everything it printed.
  std::string Log() const;
  // In the order of the replies. A line is written just after its reply, so make another request
  // first if the last one counts.
  std::vector<Request> requests() const;
  // From here on.
  void Forget();
  // Kills it and starts it again, with the same port and what it stored.
  void Restart();
  void Stop() { server_.reset(); }
  // Stops it, removes everything that no tagged manifest refers to, and starts it again. False if
  // its program failed.
  bool CollectGarbage();

  // The digests of the blobs that a repository has, without manifests.
  std::set<std::string> BlobsOf(const std::string& repository) const;
  // The file in which it keeps the bytes of a blob.
  std::filesystem::path BlobPath(const std::string& digest) const;

 private:
  void Start(uint16_t port);
  std::vector<std::string> Command(uint16_t port) const;

  std::filesystem::path directory_;
  Settings settings_;
  size_t forgotten_ = 0;  // bytes of the log
  std::optional<RealServer> server_;
};

}  // namespace moepack::remote
