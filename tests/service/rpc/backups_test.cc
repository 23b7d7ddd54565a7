// Backups by the RPC group Admin, over the fake engine.
#include <string>

#include "tests/service/service_testing.h"

namespace recollect {
namespace {

class BackupsTest : public ServiceTest {
 protected:
  // A server that has a directory for backups, on an engine of its own.
  void StartWithDirectory() {
    server_ = *service::Server::Start(
        {.listen = "127.0.0.1:0", .model_name = "fake", .backup_dir = "/the/backups"}, with_);
    client_ = *client::Client::Connect(server_->address());
  }
  void TearDown() override { server_.reset(); }  // before its engine
  absl::StatusOr<v1::Backup> Create(uint32_t keep) {
    v1::CreateBackupRequest request;
    request.set_keep(keep);
    return client_->CreateBackup(request);
  }

  FakeEngine with_;
};

TEST_F(BackupsTest, WithoutADirectoryThereAreNone) {
  EXPECT_THAT(Create(0).status(),
              Fails(absl::StatusCode::kFailedPrecondition, "start it with --backup-dir"));
  EXPECT_THAT(client_->ListBackups().status(),
              Fails(absl::StatusCode::kFailedPrecondition, "start it with --backup-dir"));
}

TEST_F(BackupsTest, AreMadeAndListed) {
  StartWithDirectory();
  EXPECT_EQ(client_->ListBackups()->backups_size(), 0);
  const auto made = Create(0);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(with_.seen().backup_dir, "/the/backups");
  EXPECT_EQ(made->number(), 1u);
  EXPECT_EQ(made->created_unix_s(), 1000);
  EXPECT_EQ(made->bytes(), 10);
  EXPECT_EQ(made->files(), 2);
  EXPECT_EQ(made->documents(), 3);
  EXPECT_FALSE(made->has_damage());
  ASSERT_TRUE(Create(0).ok());
  ASSERT_TRUE(Create(2).ok());
  const auto listed = client_->ListBackups();
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ(listed->backups_size(), 2);
  EXPECT_EQ(listed->backups(0).number(), 2u);
  EXPECT_EQ(listed->backups(1).number(), 3u);
}

TEST_F(BackupsTest, ErrorsOfTheEngineReachTheClient) {
  StartWithDirectory();
  with_.Set({.error = absl::ResourceExhaustedError("the disk is full")});
  EXPECT_THAT(Create(0).status(), Fails(absl::StatusCode::kResourceExhausted, "the disk is full"));
  EXPECT_THAT(client_->ListBackups().status(),
              Fails(absl::StatusCode::kResourceExhausted, "the disk is full"));
}

}  // namespace
}  // namespace recollect
