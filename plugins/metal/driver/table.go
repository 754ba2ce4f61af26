package driver

// Types of objects. Each has the name of its Objective-C class or protocol; TestTable compares them with the
// declarations below.
type (
	nsObject     uintptr
	nsArray      uintptr
	nsDictionary uintptr
	nsError      uintptr
	nsString     uintptr
	nsURL        uintptr
	mtlDevice    uintptr

	mtlBinaryArchive             uintptr
	mtlBinaryArchiveDescriptor   uintptr
	mtlBlitCommandEncoder        uintptr
	mtlBuffer                    uintptr
	mtlCommandBuffer             uintptr
	mtlCommandBufferDescriptor   uintptr
	mtlCommandBufferEncoderInfo  uintptr
	mtlCommandEncoder            uintptr
	mtlCommandQueue              uintptr
	mtlCompileOptions            uintptr
	mtlComputeCommandEncoder     uintptr
	mtlComputePipelineDescriptor uintptr
	mtlComputePipelineState      uintptr
	mtlFunction                  uintptr
	mtlLibrary                   uintptr
)

// Types of values, and of addresses of values.
type (
	void       uint64 // result of a function that returns nothing
	boolean    uint8  // BOOL: 0 or 1; the upper bits of its register are undefined
	nsInteger  int64
	nsUInteger uint64
	uint8T     uint8
	sel        uintptr

	cString           uintptr // const char *
	bytesAddress      uintptr // const void *, void *
	deallocatorBlock  uintptr // void (^)(void *pointer, NSUInteger length)
	nsErrorAddress    uintptr // NSError **
	nsUIntegerAddress uintptr // const NSUInteger[]
	mtlBufferAddress  uintptr // const id<MTLBuffer>[]
	reflectionAddress uintptr // MTLAutoreleasedComputePipelineReflection *
	autoreleasePool   uintptr // void *

	// A struct of more than 16 bytes is passed by the address of a copy, which the callee may change: AAPCS64, 6.8.2,
	// B.4.
	mtlSizeAddress uintptr // MTLSize

	// A struct of up to 16 bytes is passed in two registers. An NSRange is passed as these two arguments.
	nsRangeLocation uint64
	nsRangeLength   uint64
)

// mtlSize has the layout of MTLSize.
type mtlSize struct{ width, height, depth nsUInteger }

const (
	bridgeLibrary  = "/usr/lib/libobjc.A.dylib"
	metalFramework = "/System/Library/Frameworks/Metal.framework/Metal"
)

var (
	autoreleasePoolPush = function0Of[autoreleasePool](bridgeLibrary, "void *objc_autoreleasePoolPush(void);")
	autoreleasePoolPop  = function1Of[autoreleasePool, void](bridgeLibrary, "void objc_autoreleasePoolPop(void *pool);")
	copyAllDevices      = function0Of[nsArray](metalFramework, "NSArray<id<MTLDevice>> *MTLCopyAllDevices(void);")

	encoderInfoErrorKey = variableOf[nsString](
		metalFramework, "NSErrorUserInfoKey const MTLCommandBufferEncoderInfoErrorKey;")
)

const (
	classNSArray                 class[nsArray]                      = "NSArray"
	classNSString                class[nsString]                     = "NSString"
	classNSURL                   class[nsURL]                        = "NSURL"
	classCommandBufferDescriptor class[mtlCommandBufferDescriptor]   = "MTLCommandBufferDescriptor"
	classCompileOptions          class[mtlCompileOptions]            = "MTLCompileOptions"
	classPipelineDescriptor      class[mtlComputePipelineDescriptor] = "MTLComputePipelineDescriptor"
	classArchiveDescriptor       class[mtlBinaryArchiveDescriptor]   = "MTLBinaryArchiveDescriptor"
)

// Foundation.
var (
	retain               = declare0[nsObject, nsObject]("- (instancetype)retain;")
	release              = declare0[nsObject, void]("- (oneway void)release;")
	respondsToSelector   = declare1[nsObject, sel, boolean]("- (BOOL)respondsToSelector:(SEL)aSelector;")
	count                = declare0[nsArray, nsUInteger]("- (NSUInteger)count;")
	objectAtIndex        = declare1[nsArray, nsUInteger, nsObject]("- (ObjectType)objectAtIndex:(NSUInteger)index;")
	arrayWithObject      = declare1[nsArray, nsObject, nsArray]("+ (instancetype)arrayWithObject:(ObjectType)anObject;")
	objectForKey         = declare1[nsDictionary, nsObject, nsObject]("- (ObjectType)objectForKey:(KeyType)aKey;")
	stringWithUTF8String = declare1[nsString, cString, nsString](
		"+ (instancetype)stringWithUTF8String:(const char *)nullTerminatedCString;")
	utf8String           = declare0[nsString, cString]("- (const char *)UTF8String;")
	fileURLWithPath      = declare1[nsURL, nsString, nsURL]("+ (NSURL *)fileURLWithPath:(NSString *)path;")
	errorCode            = declare0[nsError, nsInteger]("- (NSInteger)code;")
	errorUserInfo        = declare0[nsError, nsDictionary]("- (NSDictionary<NSErrorUserInfoKey, id> *)userInfo;")
	errorDomain          = declare0[nsError, nsString]("- (NSString *)domain;")
	localizedDescription = declare0[nsError, nsString]("- (NSString *)localizedDescription;")
)

// Devices, buffers and queues.
var (
	deviceName       = declare0[mtlDevice, nsString]("- (NSString *)name;")
	workingSet       = declare0[mtlDevice, nsUInteger]("- (uint64_t)recommendedMaxWorkingSetSize;")
	allocatedSize    = declare0[mtlDevice, nsUInteger]("- (NSUInteger)currentAllocatedSize;")
	maxBufferLength  = declare0[mtlDevice, nsUInteger]("- (NSUInteger)maxBufferLength;")
	maxSharedLength  = declare0[mtlDevice, nsUInteger]("- (NSUInteger)maxThreadgroupMemoryLength;")
	hasUnifiedMemory = declare0[mtlDevice, boolean]("- (BOOL)hasUnifiedMemory;")
	supportsFamily   = declare1[mtlDevice, nsInteger, boolean](
		"- (BOOL)supportsFamily:(MTLGPUFamily)gpuFamily;")
	newCommandQueue = declare0[mtlDevice, mtlCommandQueue]("- (id<MTLCommandQueue>)newCommandQueue;")
	newBuffer       = declare2[mtlDevice, nsUInteger, nsUInteger, mtlBuffer](
		"- (id<MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options;")
	newBufferNoCopy = declare4[mtlDevice, bytesAddress, nsUInteger, nsUInteger, deallocatorBlock, mtlBuffer](
		"- (id<MTLBuffer>)newBufferWithBytesNoCopy:(void *)pointer length:(NSUInteger)length options:(MTLResourceOptions)options deallocator:(void (^)(void *pointer, NSUInteger length))deallocator;")
	bufferLength             = declare0[mtlBuffer, nsUInteger]("- (NSUInteger)length;")
	contents                 = declare0[mtlBuffer, bytesAddress]("- (void *)contents;")
	newCommandBufferSettings = declare0[mtlCommandBufferDescriptor, mtlCommandBufferDescriptor]("+ (instancetype)new;")
	setErrorOptions          = declare1[mtlCommandBufferDescriptor, nsUInteger, void](
		"- (void)setErrorOptions:(MTLCommandBufferErrorOption)errorOptions;")
	queueCommandBuffer = declare1[mtlCommandQueue, mtlCommandBufferDescriptor, mtlCommandBuffer](
		"- (id<MTLCommandBuffer>)commandBufferWithDescriptor:(MTLCommandBufferDescriptor *)descriptor;")
)

// Compilation.
var (
	newCompileOptions  = declare0[mtlCompileOptions, mtlCompileOptions]("+ (instancetype)new;")
	setFastMathEnabled = declare1[mtlCompileOptions, boolean, void](
		"- (void)setFastMathEnabled:(BOOL)fastMathEnabled;")
	setMathMode      = declare1[mtlCompileOptions, nsInteger, void]("- (void)setMathMode:(MTLMathMode)mathMode;")
	setMathFunctions = declare1[mtlCompileOptions, nsInteger, void](
		"- (void)setMathFloatingPointFunctions:(MTLMathFloatingPointFunctions)mathFloatingPointFunctions;")
	newLibrary = declare3[mtlDevice, nsString, mtlCompileOptions, nsErrorAddress, mtlLibrary](
		"- (id<MTLLibrary>)newLibraryWithSource:(NSString *)source options:(MTLCompileOptions *)options error:(NSError **)error;")
	newFunction = declare1[mtlLibrary, nsString, mtlFunction](
		"- (id<MTLFunction>)newFunctionWithName:(NSString *)functionName;")
	newPipelineSettings = declare0[mtlComputePipelineDescriptor, mtlComputePipelineDescriptor]("+ (instancetype)new;")
	setComputeFunction  = declare1[mtlComputePipelineDescriptor, mtlFunction, void](
		"- (void)setComputeFunction:(id<MTLFunction>)computeFunction;")
	setMaxThreads = declare1[mtlComputePipelineDescriptor, nsUInteger, void](
		"- (void)setMaxTotalThreadsPerThreadgroup:(NSUInteger)maxTotalThreadsPerThreadgroup;")
	setBinaryArchives = declare1[mtlComputePipelineDescriptor, nsArray, void](
		"- (void)setBinaryArchives:(NSArray<id<MTLBinaryArchive>> *)binaryArchives;")
	newPipelineState = declare4[mtlDevice, mtlComputePipelineDescriptor, nsUInteger, reflectionAddress,
		nsErrorAddress,
		mtlComputePipelineState]("- (id<MTLComputePipelineState>)newComputePipelineStateWithDescriptor:(MTLComputePipelineDescriptor *)descriptor options:(MTLPipelineOption)options reflection:(MTLAutoreleasedComputePipelineReflection *)reflection error:(NSError **)error;")
	maxThreads     = declare0[mtlComputePipelineState, nsUInteger]("- (NSUInteger)maxTotalThreadsPerThreadgroup;")
	executionWidth = declare0[mtlComputePipelineState, nsUInteger]("- (NSUInteger)threadExecutionWidth;")

	newArchiveSettings = declare0[mtlBinaryArchiveDescriptor, mtlBinaryArchiveDescriptor]("+ (instancetype)new;")
	setURL             = declare1[mtlBinaryArchiveDescriptor, nsURL, void]("- (void)setUrl:(NSURL *)url;")
	newArchive         = declare2[mtlDevice, mtlBinaryArchiveDescriptor, nsErrorAddress, mtlBinaryArchive](
		"- (id<MTLBinaryArchive>)newBinaryArchiveWithDescriptor:(MTLBinaryArchiveDescriptor *)descriptor error:(NSError **)error;")
	addToArchive = declare2[mtlBinaryArchive, mtlComputePipelineDescriptor, nsErrorAddress, boolean](
		"- (BOOL)addComputePipelineFunctionsWithDescriptor:(MTLComputePipelineDescriptor *)descriptor error:(NSError **)error;")
	serializeToURL = declare2[mtlBinaryArchive, nsURL, nsErrorAddress, boolean](
		"- (BOOL)serializeToURL:(NSURL *)url error:(NSError **)error;")
)

// Commands.
var (
	computeEncoder = declare0[mtlCommandBuffer, mtlComputeCommandEncoder](
		"- (id<MTLComputeCommandEncoder>)computeCommandEncoder;")
	blitEncoder = declare0[mtlCommandBuffer, mtlBlitCommandEncoder](
		"- (id<MTLBlitCommandEncoder>)blitCommandEncoder;")
	commit           = declare0[mtlCommandBuffer, void]("- (void)commit;")
	bufferStatus     = declare0[mtlCommandBuffer, nsUInteger]("- (MTLCommandBufferStatus)status;")
	bufferError      = declare0[mtlCommandBuffer, nsError]("- (NSError *)error;")
	gpuEndTime       = declareDouble[mtlCommandBuffer]("- (CFTimeInterval)GPUEndTime;")
	encoderInfoLabel = declare0[mtlCommandBufferEncoderInfo, nsString]("- (NSString *)label;")
	encoderInfoState = declare0[mtlCommandBufferEncoderInfo, nsInteger]("- (MTLCommandEncoderErrorState)errorState;")
	setEncoderLabel  = declare1[mtlCommandEncoder, nsString, void]("- (void)setLabel:(NSString *)label;")
	endEncoding      = declare0[mtlCommandEncoder, void]("- (void)endEncoding;")
	setPipeline      = declare1[mtlComputeCommandEncoder, mtlComputePipelineState, void](
		"- (void)setComputePipelineState:(id<MTLComputePipelineState>)state;")
	setBuffers = declare4[mtlComputeCommandEncoder, mtlBufferAddress, nsUIntegerAddress, nsRangeLocation,
		nsRangeLength,
		void]("- (void)setBuffers:(const id<MTLBuffer>[])buffers offsets:(const NSUInteger[])offsets withRange:(NSRange)range;")
	setBytes = declare3[mtlComputeCommandEncoder, bytesAddress, nsUInteger, nsUInteger, void](
		"- (void)setBytes:(const void *)bytes length:(NSUInteger)length atIndex:(NSUInteger)index;")
	setSharedLength = declare2[mtlComputeCommandEncoder, nsUInteger, nsUInteger, void](
		"- (void)setThreadgroupMemoryLength:(NSUInteger)length atIndex:(NSUInteger)index;")
	dispatchGroups = declare2[mtlComputeCommandEncoder, mtlSizeAddress, mtlSizeAddress, void](
		"- (void)dispatchThreadgroups:(MTLSize)threadgroupsPerGrid threadsPerThreadgroup:(MTLSize)threadsPerThreadgroup;")
	fillBuffer = declare4[mtlBlitCommandEncoder, mtlBuffer, nsRangeLocation, nsRangeLength, uint8T, void](
		"- (void)fillBuffer:(id<MTLBuffer>)buffer range:(NSRange)range value:(uint8_t)value;")
	copyBetweenBuffers = declare5[mtlBlitCommandEncoder, mtlBuffer, nsUInteger, mtlBuffer, nsUInteger, nsUInteger,
		void]("- (void)copyFromBuffer:(id<MTLBuffer>)sourceBuffer sourceOffset:(NSUInteger)sourceOffset toBuffer:(id<MTLBuffer>)destinationBuffer destinationOffset:(NSUInteger)destinationOffset size:(NSUInteger)size;")
)

// Constants of Metal.
const (
	resourceStorageModeShared = 0 // MTLResourceStorageModeShared: processor and GPU see the same bytes

	mathModeSafe                                       = 0 // MTLMathModeSafe
	mathFloatingPointFunctionsPrecise                  = 1 // MTLMathFloatingPointFunctionsPrecise
	pipelineOptionNone                                 = 0 // MTLPipelineOptionNone
	pipelineOptionFailOnArchiveMiss                    = 4 // MTLPipelineOptionFailOnBinaryArchiveMiss
	gpuFamilyApple1, gpuFamilyApple7, gpuFamilyApple10 = 1001, 1007, 1010
	// MTLCommandBufferStatusCompleted; the command buffer has not ended while its status is lower
	commandBufferStatusCompleted = 4
	commandBufferStatusError     = 5 // MTLCommandBufferStatusError
	maxBuffers                   = 31
	// maximum number of a queue's command buffers that have not ended; asking for another one blocks
	commandBuffersOfQueue             = 64
	commandBufferErrorDomain          = "MTLCommandBufferErrorDomain"
	commandBufferErrorTimeout         = 2
	commandBufferErrorPageFault       = 3
	commandBufferErrorAccessRevoked   = 4
	commandBufferErrorNotPermitted    = 7
	commandBufferErrorOutOfMemory     = 8
	commandBufferErrorInvalidResource = 9
	commandBufferErrorDeviceRemoved   = 11
	commandBufferErrorStackOverflow   = 12

	commandBufferErrorOptionEncoderExecutionStatus = 1 // MTLCommandBufferErrorOptionEncoderExecutionStatus
	// MTLCommandEncoderErrorStateAffected: stopped by an error that may be another encoder's
	commandEncoderErrorStateAffected = 2
	commandEncoderErrorStateFaulted  = 4 // MTLCommandEncoderErrorStateFaulted: caused the error
)
