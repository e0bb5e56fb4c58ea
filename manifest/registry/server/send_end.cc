#include "manifest/registry/server/send_end.h"

#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/reference.h"

namespace moepack::registry {
namespace {

using What = SendEnd::What;

// The session's own query stays as it is: it may be the state of the upload.
remote::Url WithDigest(remote::Url url, const std::string& digest) {
  url.query += Cat(url.query.empty() ? "" : "&", "digest=", remote::EncodeComponent(digest));
  return url;
}

// For a registry that does not have a status to say that part of the blob is missing.
What Meaning(int status) {
  if (status == 413 || status == 405 || status == 416 || status == 501) return What::kOtherMode;
  // Sessions can be lost: registries drop them when they restart, and when a request was cut off.
  return status == 404 || remote::IsTransient(status) ? What::kAgain : What::kFailed;
}

}  // namespace

std::string UploadName(const RegistryClient& client, const BlobRecord& blob) {
  const std::string path = blob.path();
  return Cat(client.name(), ": blob ", blob.digest,
             path.empty() ? "" : Cat(" (", Shown(path), ")"));
}

SendEnd SendFailed(SendEnd::What what, Error error, remote::HttpReply reply) {
  return {what, std::move(error), std::move(reply)};
}

SendEnd PutBlob(const RegistryClient& client, const UploadSession& session, UploadBody& body,
                uint64_t offset) {
  const BlobRecord& blob = body.blob();
  remote::HttpRequest request;
  request.method = "PUT";
  request.url = WithDigest(session.url, blob.digest);
  request.name = UploadName(client, blob);
  request.expected = "it to be accepted";
  request.headers = {"Content-Type: application/octet-stream"};
  request.body = body.Part(offset, blob.size - offset);
  RegistryClient::Asked asked = client.AskOnce(request, client.PushScopes());
  remote::HttpReply& reply = asked.attempt.reply;
  if (asked.attempt.error) {
    return SendFailed(asked.attempt.transient ? What::kAgain : What::kFailed,
                      *std::move(asked.attempt.error));
  }
  if (reply.status != 200 && reply.status != 201 && reply.status != 204) {
    const What what = asked.renewed ? What::kRenewed : Meaning(reply.status);
    Error error = client.Refusal(request.name, reply, client.PushScopes());
    return SendFailed(what, std::move(error), std::move(reply));
  }
  const std::string_view stated = reply.Field("docker-content-digest");
  if (!IsDigest(stated) || stated == blob.digest) return {What::kDone, std::nullopt, reply};
  return SendFailed(
      What::kFailed,
      {Code::kCorrupt, Cat(request.name, ": expected it under this digest, found ", Shown(stated)),
       "the registry or a proxy in between is broken"});
}

}  // namespace moepack::registry
