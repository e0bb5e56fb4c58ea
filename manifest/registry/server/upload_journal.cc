#include "manifest/registry/server/upload_journal.h"

#include <sys/stat.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "libshard/base/digest.h"
#include "libshard/base/files/inside_directory.h"
#include "libshard/base/files/temporary_file.h"
#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"

namespace moepack::registry {
namespace {

constexpr uint64_t kMostEntry = 64u << 10;  // bytes
constexpr size_t kNameDigits = 32;

}  // namespace

// One blob may be on its way to several repositories.
std::string UploadJournal::NameOf(const std::string& digest) const {
  return Cat(Sha256Hex(Cat(host_, "\n", repository_, "\n", digest)).substr(0, kNameDigits),
             ".json");
}

std::optional<UploadJournal::Entry> UploadJournal::Find(const std::string& digest) const {
  if (directory_.empty()) return std::nullopt;
  const auto directory = InsideDirectory::Open(directory_);
  if (!directory) return std::nullopt;
  const auto text = directory->ReadText(NameOf(digest), kMostEntry);
  if (!text) return std::nullopt;
  const auto document = ParseJson("", *text);
  if (!document || !document->is_object()) return std::nullopt;
  const bool same = TextMember(*document, "host") == host_ &&
                    TextMember(*document, "repository") == repository_ &&
                    TextMember(*document, "digest") == digest;
  const auto offset = JsonFields(*document, "").Unsigned("offset");
  if (!same || !offset) return std::nullopt;
  return Entry{TextMember(*document, "location"), *offset};
}

Status UploadJournal::Note(const std::string& digest, const Entry& entry) const {
  if (directory_.empty()) return Ok();
  const Json document = {{"host", host_},
                         {"repository", repository_},
                         {"digest", digest},
                         {"location", entry.location},
                         {"offset", entry.offset}};
  SHARD_TRY(const InsideDirectory directory, InsideDirectory::OpenOrMake(directory_));
  const std::string name = NameOf(digest), text = WriteJson(document);
  const fs::path path = directory.path() / name;
  SHARD_TRY(const TemporaryFile file, MakeTemporaryFile(directory.descriptor(), name, path));
  if (fchmod(file.fd.get(), S_IRUSR | S_IWUSR) != 0)
    return Error{Code::kIo, Cat(path.string(), ": chmod: ", ErrnoText(errno))};
  SHARD_CHECK(WriteAt(file.fd.get(), path, 0, std::as_bytes(std::span(text))));
  SHARD_CHECK(FlushToDisk(file.fd.get(), path));
  return directory.Move(file.name, directory, name, true);
}

void UploadJournal::Forget(const std::string& digest) const {
  if (directory_.empty()) return;
  const auto directory = InsideDirectory::Open(directory_);
  if (directory) (void)directory->Remove(NameOf(digest));
}

}  // namespace moepack::registry
