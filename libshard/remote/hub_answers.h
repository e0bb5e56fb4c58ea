// What the Hugging Face Hub answers, as JSON that may be hostile.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "libshard/base/result.h"

namespace moepack::remote {

struct HubFile {
  uint64_t size = 0;
  std::string id;      // of the blob: git's SHA-1, or for large files SHA-256
  std::string sha256;  // published for large files; "" for others
};
using HubFiles = std::map<std::string, HubFile>;

// A repository at one commit.
struct HubRevision {
  std::string id;      // "owner/name" as the Hub has it now; "" when it does not say
  std::string commit;  // 40 digits
};

// True for 40 hexadecimal digits.
bool IsCommit(std::string_view text);

// `source` and `host` are for messages. kIo for an answer without a commit.
Result<HubRevision> ParseHubRevision(const std::string& source, const std::string& host,
                                     std::string_view answer);
// Adds the files of one page of a listing; names that would lead out of a directory are passed
// over.
Status ParseHubFiles(const std::string& where, std::string_view answer, HubFiles& files);

}  // namespace moepack::remote
