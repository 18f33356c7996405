//===- Crossings.h - Buffers and channels of values that cross ---*- C++
//-*-===//
//
// Plans the hand-over of everything but shared accumulators: loads to products
// and vector code, vector code's operands to products, and the products
// themselves.
//
//===----------------------------------------------------------------------===//

#ifndef FLAMIA_PASSES_ROLES_CROSSINGS_H
#define FLAMIA_PASSES_ROLES_CROSSINGS_H

#include "passes/Roles/Accumulators.h"

#include "llvm/ADT/MapVector.h"

#include <map>
#include <memory>

namespace flamia {

/// Arrivals of a signal by threads: one a warp of a vector role.
constexpr int64_t kVectorWarps = 4;
/// Elements along the contraction that share a scale, in MXFP8.
constexpr int64_t kScaleBlock = 32;

/// Element type of a tensor or scaled tile.
mlir::Type elementOf(mlir::Type tile);

/// Whether shared memory can hold the tile as an operand image; an error at
/// `op` when it cannot.
mlir::LogicalResult checkImage(mlir::Operation *op, mlir::Type tile);

/// The constant index 0.
mlir::Value createZero(mlir::OpBuilder &builder, mlir::Location loc);

/// A product's operand as the tensor core takes it.
struct OperandBuffer {
  mlir::Value payload;
  /// Scales in tensor memory; null for 16-bit operands.
  mlir::Value scales;
  /// Channel whose consumed slot holds the payload.
  mlir::Value channel;
};

/// Whether products were moved in innermost loops, and in others.
struct ProductMoves {
  bool inner = false, outer = false;
};

/// Moves products of loops that need no vector code up, before those that do:
/// of innermost loops, where tiles follow one another, or of all.
ProductMoves moveProductsUp(KernelOp kernel, bool inOuterLoops);

/// Which results of products share columns, where they are short: none; of
/// each block of code the first, the second...; or all.
enum class Turns { None, OfPlaces, OfAll };

class CrossingPlanner {
public:
  /// `builder` stands where buffers and channels are to be created.
  CrossingPlanner(KernelOp kernel, const Accumulators &accumulators,
                  mlir::OpBuilder &builder, int64_t maxStages);

  /// Issues products as early as their buffers allow (Ahead.cpp), which is
  /// earlier when their results do not take turns in one.
  void issueAhead(Turns turns) {
    issuesAhead = true;
    mayTakeTurns = turns;
  }

  /// Several work items: issues each item's next scores before its product with
  /// the weights of this iteration, not behind it (Slots.cpp).
  void issueScoresFirst() { scoresFirst = true; }

  /// Plans the whole kernel.
  mlir::LogicalResult plan();

  /// Whether issueAhead or issueScoresFirst made a difference.
  bool isAhead() const { return placesAhead; }

  /// Roles in the order of their warps; unused ones included.
  llvm::MapVector<llvm::StringRef, RoleBuilder> &getRoles() { return roles; }

private:
  /// Uses of a value in one role.
  struct Consumer {
    UseRange mma, vector, any;
    void add(const Consumer &other);
  };
  using Consumers = llvm::MapVector<llvm::StringRef, Consumer>;

  RoleBuilder &roleNamed(llvm::StringRef name) {
    return roles.find(name)->second;
  }
  mlir::Value createBuffer(mlir::Location loc, tcgen::Space space,
                           tcgen::Layout layout, int64_t slots, int64_t rows,
                           int64_t cols, mlir::Type element);
  mlir::Value createChannel(mlir::Location loc, int64_t slots, int64_t full,
                            int64_t empty);
  mlir::Value createConstantScales(mlir::Location loc, int64_t byte,
                                   int64_t rows, int64_t cols);

  /// A buffer in tensor memory that several values hold one after the other,
  /// where columns are short.
  struct Turn {
    mlir::Value buffer, channel;
    mlir::Operation *lastUse;
    /// The vector role that uses all of them.
    llvm::StringRef role;
    /// How many results of their kind come before in their block.
    int64_t place;
  };
  int64_t countColumns();
  Turn *findTurn(tcgen::BufferType type, llvm::StringRef role,
                 mlir::Operation *next);
  void takeTurn(Turn *turn, mlir::Value buffer, mlir::Value channel,
                llvm::StringRef role, mlir::Operation *lastUse, int64_t place);

  /// How a product takes an operand below its transposes.
  struct OperandShape {
    bool isA;
    /// It contracts the columns of the tile, not its rows.
    bool alongCols;
  };
  static OperandShape shapeOf(mlir::OpOperand &use);
  static mlir::LogicalResult checkPacked(DotOp dot);

  Consumers consumersOf(mlir::Value value);
  /// Loads that share a payload, and all that use it.
  struct LoadGroup {
    llvm::SmallVector<mlir::Operation *> loads;
    Consumers consumers;
  };
  using LoadGroups = std::vector<LoadGroup>;
  /// A ring of loads with its last load and that one's first use.
  struct Ring {
    mlir::Value payload, channel;
    mlir::Operation *load, *firstUse;
    /// Where products alone use it, the last that does.
    mlir::Operation *lastProduct;
  };
  mlir::LogicalResult planLoads(llvm::ArrayRef<mlir::Operation *> tileLoads);
  mlir::LogicalResult checkLoad(mlir::Operation *load);
  LoadGroups groupLoads(llvm::ArrayRef<mlir::Operation *> tileLoads);
  int64_t slotsOf(const LoadGroup &group);
  static mlir::Operation *lastProductOf(const Consumers &consumers);
  bool areConsecutive(const Ring &ring, const LoadGroup &group);
  Ring createRing(const LoadGroup &group, int64_t slots);
  bool areAlike(mlir::Operation *last, mlir::Operation *load);
  /// Whether `load` may follow the ring's last load in its slots.
  bool canShare(const Ring &ring, mlir::Operation *load,
                const Consumers &consumers,
                llvm::ArrayRef<mlir::Operation *> laterLoads);
  mlir::Value planScales(LoadScaledOp load, int64_t slots,
                         OperandBuffer &image);
  void planLoad(const LoadGroup &group, const Ring &ring);
  mlir::FailureOr<OperandBuffer> planVectorOperand(DotOp dot, mlir::Value value,
                                                   OperandShape wanted);
  void planConsumers(mlir::Value value, const Consumers &consumers,
                     mlir::Operation *producer, llvm::StringRef producerRole,
                     mlir::Value channel, mlir::Value buffer);
  mlir::FailureOr<OperandBuffer> operandOf(mlir::OpOperand &use);
  mlir::LogicalResult planDot(DotOp dot, const Web &web, mlir::Value buffer,
                              mlir::Value channel);
  mlir::LogicalResult planWeb(const Web &web);
  // Products ahead of their turn (Ahead.cpp).
  bool isFreshProduct(DotOp dot) const { return freshChannels.contains(dot); }
  bool isReady(mlir::OpOperand &use, mlir::scf::ForOp loop,
               llvm::SetVector<mlir::Value> &carried);
  bool takesLaterTurn(DotOp dot);
  mlir::Operation *placeOfNext(DotOp dot, mlir::scf::ForOp loop,
                               llvm::ArrayRef<DotOp> ahead);
  mlir::Operation *placeOfFirst(mlir::scf::ForOp loop,
                                llvm::ArrayRef<DotOp> ahead,
                                llvm::SetVector<mlir::Value> &early);
  void planRotation();

  // Several work items in one CTA (Slots.cpp).
  llvm::StringRef vectorRoleOfUse(mlir::OpOperand &use, mlir::Value value);
  void planScaleCopy(DotOp dot, LoadScaledOp load, OperandBuffer &image);
  void planDrainedWaits(DotOp dot);
  bool areColumnsShort();
  bool doResultsFillColumns();
  mlir::Value planGrant(llvm::StringRef vectorName, mlir::Operation *product);
  void rotate(mlir::scf::ForOp loop, llvm::ArrayRef<DotOp> ahead);

  KernelOp kernel;
  const Accumulators &accumulators;
  mlir::OpBuilder &builder;
  int64_t maxStages;
  llvm::MapVector<llvm::StringRef, RoleBuilder> roles;
  /// The role that issues products.
  llvm::StringRef mmaRole = kMmaRole;
  llvm::DenseMap<mlir::Value, OperandBuffer> loads;
  /// The kernel runs several work items. Then every product has its scales
  /// copied again, into columns that other buffers of other slots may share.
  bool hasSlots = false;
  /// Scales in shared memory of each load, where products copy them.
  llvm::DenseMap<mlir::Value, mlir::Value> loadedScales;
  /// Channels of product results, with their vector role.
  llvm::MapVector<mlir::Value, llvm::StringRef> resultChannels;
  /// The values that share a load's payload, itself included.
  llvm::DenseMap<mlir::Value, std::shared_ptr<llvm::SmallVector<mlir::Value>>>
      loadViews;
  /// The mma role's wait for a load (the last of its views) and copies of its
  /// scales, and whether they come before their planned place.
  struct LoadUse {
    llvm::SmallVector<Step> steps;
    std::shared_ptr<bool> isEarly = std::make_shared<bool>(false);
  };
  llvm::DenseMap<mlir::Value, LoadUse> loadUses;
  Step unlessEarly(mlir::Value load, Step step);
  bool issuesAhead = false, placesAhead = false;
  Turns mayTakeTurns = Turns::OfAll;
  bool scoresFirst = false;
  /// Channels of the products that start from zero and are carried nowhere.
  llvm::MapVector<mlir::Operation *, mlir::Value> freshChannels;
  bool takesTurns = false;
  std::vector<Turn> turns;
  /// By value, whether it is the left operand, and whether scales run along
  /// its columns.
  std::map<std::tuple<void *, bool, bool>, OperandBuffer> vectorOperands;
  /// Constant scales by byte, rows and columns.
  llvm::DenseMap<std::tuple<int64_t, int64_t, int64_t>, mlir::Value>
      constantScales;
};

} // namespace flamia

#endif // FLAMIA_PASSES_ROLES_CROSSINGS_H
