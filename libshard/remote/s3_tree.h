// s3://bucket/prefix: objects of S3 or a similar server as files.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/remote/remote_tree.h"
#include "libshard/remote/s3_listing.h"
#include "libshard/remote/s3_settings.h"

namespace moepack::remote {

// If the server says that the bucket is in another region, it is requested there, with a warning:
// the first listing finds out.
class S3Tree final : public RemoteTree {
 public:
  S3Tree(Transport transport, S3Settings settings, S3Name folder);

  Result<std::vector<std::string>> List(const std::string& folder,
                                        std::string_view suffix) const override;
  Result<bool> Has(const std::string& file) const override;

 protected:
  Result<ByteSourcePtr> OpenNew(const std::string& file) const override;

 private:
  using Objects = std::map<std::string, S3Object>;  // by their names in the folder
  Result<Objects> ObjectsIn(const std::string& folder) const;
  Result<std::optional<S3Object>> Find(const std::string& file) const;
  Result<Objects> AskFor(const std::string& prefix) const;
  Result<S3Page> AskForPage(const std::string& name, const std::string& query) const;
  bool GoesElsewhere(const HttpReply& reply, const std::string& asked) const;
  S3Settings settings() const;

  S3Name folder_;
  mutable std::mutex mutex_;
  mutable S3Settings settings_;  // the region becomes the bucket's
  mutable std::map<std::string, Objects> listings_;
};

// A prefix as a folder, or an object if the name ends like those of checkpoints.
Result<Source> OpenS3(const Transport& transport, const S3Settings& settings, const S3Name& name);

}  // namespace moepack::remote
