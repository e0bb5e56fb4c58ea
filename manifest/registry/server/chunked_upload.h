// A blob in chunks: PATCH after PATCH, each where the registry's last answer says.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "libshard/base/result.h"
#include "libshard/remote/http/patience.h"
#include "manifest/registry/server/registry_client.h"
#include "manifest/registry/server/send_end.h"
#include "manifest/registry/server/upload_body.h"
#include "manifest/registry/server/upload_journal.h"

namespace moepack::registry {

struct ChunkRule {
  uint64_t bytes = 64u << 20;  // of a chunk
  bool range_stays = false;    // as in HostQuirks
};

// The last byte of "0-99" or "bytes=0-99".
std::optional<uint64_t> RangeEnd(std::string_view range);
// Where to continue after a chunk from `begin` to `end` (exclusive): `range` is what the registry
// says it has, if anything. Registries that are off by one, or repeat the first chunk, are not
// believed, but the digest at the end is. No value if it lacks the whole chunk or claims more than
// was sent.
std::optional<uint64_t> NextOffset(uint64_t begin, uint64_t end, std::string_view range,
                                   bool range_stays);

// Whether uploads survive a request that was cut off: two bytes are sent, and the registry is asked
// about them at the previous address. distribution 2.8 says no, 3 and zot say yes.
bool SurvivesCuts(const RegistryClient& client);

// One upload, on one thread. Borrows everything.
class ChunkedUpload {
 public:
  ChunkedUpload(const RegistryClient& client, const UploadJournal& journal, UploadBody& body,
                ChunkRule rule)
      : client_(client),
        journal_(journal),
        body_(body),
        rule_(rule),
        patience_(client.http().settings().retry) {}

  // Resumes where another process stopped, if the journal knows of one and the registry still does.
  bool Resume();
  // REQUIRES: Resume() was false.
  void Begin(UploadSession session);
  // Sends what is left. A chunk that was cut off is resent from where the registry has it, if the
  // registry can say that.
  SendEnd Run();

 private:
  // What an answer to a chunk, or to the question where to continue, requires.
  enum class Step : uint8_t { kGoOn, kAsk, kEnd };
  Step SendChunk();
  Step TakeAnswer(const RegistryClient::Asked& asked, uint64_t end);
  Step Refuse(const RegistryClient::Asked& asked);
  // Asks the registry how much it has. `again`: after other credentials became available.
  Step AskWhere(bool again = false);
  Step Fail(SendEnd::What what, Error error, remote::HttpReply reply = {});
  Step Failed(const RegistryClient::Asked& asked, SendEnd::What what);
  void TakeLocation(const remote::HttpReply& reply);
  void Note();
  remote::HttpRequest Request(const char* method) const;

  const RegistryClient& client_;
  const UploadJournal& journal_;
  UploadBody& body_;
  ChunkRule rule_;
  UploadSession session_;
  uint64_t offset_ = 0;  // bytes that the registry has
  bool resumed_ = false;
  bool accepted_ = false;                // a chunk, in this session
  remote::Patience patience_;            // accepted chunks are progress
  remote::Patience::Failures failures_;  // since the last accepted chunk
  remote::HttpReply last_;
  SendEnd end_;
};

}  // namespace moepack::registry
