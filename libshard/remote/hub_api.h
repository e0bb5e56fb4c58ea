// The questions that the Hugging Face Hub answers: which commit, which files, where a file is.
#pragma once

#include <string>

#include "libshard/base/result.h"
#include "libshard/remote/http/http_client.h"
#include "libshard/remote/hub_answers.h"
#include "libshard/remote/hub_settings.h"

namespace moepack::remote {

// Asks one repository. Errors name it and say what to do: it is missing, private, gated, has no
// such revision or file. Used by several threads at once.
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

}  // namespace moepack::remote
