// The questions that the Hugging Face Hub answers: which commit, which files, where a file is.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "libshard/base/result.h"
#include "libshard/remote/http_client.h"
#include "libshard/remote/hub_settings.h"

namespace moepack::remote {

struct HubFile {
  uint64_t size = 0;
  std::string id;      // of the blob: git's SHA-1, or for large files SHA-256
  std::string sha256;  // published for large files; "" for others
};
using HubFiles = std::map<std::string, HubFile>;

// A repository at one commit.
struct HubRevision {
  std::string id;      // "owner/name" as the Hub has it now
  std::string commit;  // 40 digits
};

// Asks about one repository. Errors name it and say what to do: it is missing, private or gated, or
// has no such revision or file. Safe to use from several threads at once.
class HubApi {
 public:
  HubApi(HttpClientPtr client, HubSettings settings, HubName name)
      : client_(std::move(client)), settings_(std::move(settings)), name_(std::move(name)) {}

  const std::string& commit() const { return commit_; }

  // The commit that the revision refers to now. From here on this commit is requested.
  Result<HubRevision> Pin();
  // All files of the commit. REQUIRES: pinned.
  Result<HubFiles> List() const;
  // Where to read `file` of the commit: at the Hub, or at an address that is signed for some
  // minutes. kCorrupt if the answer has another commit or size.
  Result<HttpRequest> Resolve(const std::string& file, const HubFile& known) const;

 private:
  HttpRequest Ask(const std::string& path, const std::string& name) const;
  Error Refusal(const HttpReply& reply, const std::string& what) const;
  Result<std::string> ListPage(HttpRequest& request, HubFiles& files) const;

  HttpClientPtr client_;
  HubSettings settings_;
  HubName name_;
  std::string id_, commit_;
};

// True for 40 hexadecimal digits.
bool IsCommit(std::string_view text);

}  // namespace moepack::remote
