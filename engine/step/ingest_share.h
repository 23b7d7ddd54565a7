// Decides whose turn it is: that of the steps of sessions, or that of the ingest beside them. Knows
// neither clock nor threads.
#pragma once

namespace recollect::engine {

// Each side gets half of the threads' time. After a step the ingest is owed as much time alone as
// the step took, less what it got meanwhile on threads that the step left idle. It takes that at
// once, but no longer than an ordinary step, and never longer than `longest_turn`: so the gaps
// between the tokens of a stream are even, and a long step, such as one with a landmark, is made up
// for in the gaps that follow. Beside steps that are longer than such a turn an ingest has less
// than half. Not thread-safe. Times are in seconds.
class IngestShare {
 public:
  explicit IngestShare(double longest_turn = 0.005) : longest_turn_(longest_turn) {}

  // After a step, during which the ingest had `beside`: the time of its threads added up, divided
  // by the number of all threads.
  void AddStep(double took, double beside);
  // After a part of the ingest's work that could be interrupted.
  void AddIngest(double took);
  // After one that could not, and may have taken much longer than what was owed: steps run for as
  // long.
  void AddWhole(double took);
  // When one side had nothing to do.
  void Forget() { owed_ = 0; }

  // Whether the ingest goes on now; otherwise a step is due.
  bool ingest_is_due() const { return owed_ > 0 && left_ > 0; }

 private:
  const double longest_turn_;
  double owed_ = 0;      // to the ingest; < 0: to steps
  double left_ = 0;      // of this turn of the ingest
  double ordinary_ = 0;  // the time of a step, averaged over the last ones
};

}  // namespace recollect::engine
