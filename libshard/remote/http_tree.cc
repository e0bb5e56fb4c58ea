#include "libshard/remote/http_tree.h"

#include <algorithm>
#include <utility>

#include "libshard/base/files/beside_weights.h"
#include "libshard/base/files/inside_path.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/remote/html_listing.h"

namespace moepack::remote {
namespace {

constexpr uint64_t kMostListing = 16u << 20;
constexpr const char* kUsualIndex = "model.safetensors.index.json";

// What is requested without a listing.
std::vector<std::string> UsualNames() {
  std::vector<std::string> names = {kUsualIndex, "model.safetensors"};
  for (const BesideWeights& beside : kBesideWeights) names.emplace_back(beside.name);
  return names;
}

constexpr std::string_view kFileSuffixes[] = {".safetensors", ".gguf", ".json"};

std::string NameOfDirectory(const Url& directory) {
  std::string name = directory.Shown();
  while (name.ends_with('/')) name.pop_back();
  return name;
}

bool NamesAFile(const std::string& path) {
  return std::any_of(std::begin(kFileSuffixes), std::end(kFileSuffixes),
                     [&](std::string_view suffix) { return path.ends_with(suffix); });
}

}  // namespace

HttpTree::HttpTree(Transport transport, const Url& directory, std::string named, std::string query)
    : RemoteTree(std::move(transport), NameOfDirectory(directory)),
      directory_(directory),
      named_(std::move(named)),
      query_(std::move(query)) {}

std::string HttpTree::NameOf(const std::string& file) const {
  return Below(directory_, file).Shown();
}

Result<std::vector<std::string>> HttpTree::FilesIn(const std::string& folder) const {
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = listings_.find(folder); at != listings_.end()) return at->second;
  }
  HttpRequest request;
  request.url = folder.empty() ? directory_ : Below(directory_, folder);
  if (!request.url.path.ends_with('/')) request.url.path += '/';
  request.name = request.url.Shown();
  SHARD_TRY(const HttpReply reply, client().Fetch(request, kMostListing));
  std::vector<std::string> files;
  if (reply.status == 200 && reply.Field("content-type").starts_with("text/html"))
    files = FilesOfListing(request.url, reply.body);
  const std::lock_guard lock(mutex_);
  return listings_.emplace(folder, std::move(files)).first->second;
}

Result<std::vector<std::string>> HttpTree::List(const std::string& folder,
                                                std::string_view suffix) const {
  if (!folder.empty() && !StaysBelow(folder)) return LeadsOutside(name(), folder);
  SHARD_TRY(const std::vector<std::string> files, FilesIn(folder));
  if (!files.empty() || !folder.empty()) return NamesIn(files, "", suffix);
  std::vector<std::string> wanted, found, refused;
  for (std::string& usual : UsualNames()) {
    if (usual.ends_with(suffix)) wanted.push_back(std::move(usual));
  }
  Expect(wanted);
  for (const std::string& usual : wanted) {
    const Result<bool> there = Has(usual);
    // Servers that hide their files (S3 behind https) refuse missing ones. Weights are never
    // assumed to be absent, unless an index names others.
    const bool weights = usual.find(".safetensors") != usual.npos;
    const bool may_be_absent = !weights || Open(kUsualIndex).has_value();
    if (!there && (there.error().code != Code::kIo || !may_be_absent)) return there.error();
    if (!there && !weights) refused.push_back(usual);
    if (there && *there) found.push_back(usual);
  }
  if (!found.empty() && !warned_.exchange(true)) {
    client().settings().warn(
        Cat(name(),
            ": the server makes no list of the directory: only files of the usual names "
            "are found"));
  }
  if (!refused.empty() && !named_refused_.exchange(true)) {
    client().settings().warn(
        Cat(name(), ": access was refused, so these count as absent: ", Join(refused, ", ")));
  }
  return NamesIn(found, "", suffix);
}

Result<bool> HttpTree::Has(const std::string& file) const {
  const auto opened = Open(file);
  if (opened) return true;
  if (opened.error().code == Code::kNotFound) return false;
  return opened.error();
}

Result<ByteSourcePtr> HttpTree::OpenNew(const std::string& file) const {
  FilePlace place;
  place.name = NameOf(file);
  HttpRequest request;
  request.url = Below(directory_, file);
  if (file == named_) request.url.query = query_;
  place.locate = [request](const Url*) -> Result<HttpRequest> { return request; };
  return HttpSource::Open(transport(), std::move(place));
}

Result<Source> OpenHttp(const Transport& transport, const Url& url) {
  Url directory = url;
  directory.query.clear();
  if (!NamesAFile(url.path)) {
    if (!directory.path.ends_with('/')) directory.path += '/';
    auto tree = std::make_shared<const HttpTree>(transport, directory);
    std::filesystem::path named = tree->name();
    return Source{std::move(named), std::move(tree), ""};
  }
  const size_t slash = url.path.rfind('/');
  const std::string file = DecodePercent(url.path.substr(slash + 1));
  directory.path.resize(slash + 1);
  if (!StaysBelow(file)) return LeadsOutside(directory.Shown(), file);
  auto tree = std::make_shared<const HttpTree>(transport, directory, file, url.query);
  std::filesystem::path named = tree->NameOf(file);
  return Source{std::move(named), std::move(tree), file};
}

}  // namespace moepack::remote
