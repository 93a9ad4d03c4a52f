package policy

// What a model can do about a refusal. Those of envelopes are "fatal": it can do
// nothing.
const (
	Feedback    = "policy_feedback" // something else: the same will be refused again
	Recoverable = "recoverable"     // the same, later
)

// A Code tells programs why something is refused. Its number and name are those
// of SMCP, of which several violations may share one.
type Code struct {
	Number    int
	Name      string
	Violation string
	Class     string // Feedback or Recoverable
}

// The codes, in the order of their numbers. Those of envelopes are in package seal.
var (
	ToolNotAllowed       = &Code{2000, "TOOL_NOT_ALLOWED", "ToolNotAllowed", Feedback}
	ToolNotApproved      = &Code{2000, "TOOL_NOT_ALLOWED", "ToolNotApproved", Feedback}
	NobodyAnswered       = &Code{2000, "TOOL_NOT_ALLOWED", "NobodyAnswered", Recoverable} // who was asked
	ToolExplicitlyDenied = &Code{2001, "TOOL_EXPLICITLY_DENIED", "ToolExplicitlyDenied", Feedback}
	PathOutsideBoundary  = &Code{2002, "PATH_NOT_ALLOWED", "PathOutsideBoundary", Feedback}
	PathTraversalAttempt = &Code{2002, "PATH_NOT_ALLOWED", "PathTraversalAttempt", Feedback}
	MissingPath          = &Code{2002, "PATH_NOT_ALLOWED", "MissingRequiredArgument", Feedback}
	DomainNotAllowed     = &Code{2003, "DOMAIN_NOT_ALLOWED", "DomainNotAllowed", Feedback}
	MissingDomain        = &Code{2003, "DOMAIN_NOT_ALLOWED", "MissingRequiredArgument", Feedback}
	CommandNotAllowed    = &Code{2004, "COMMAND_NOT_ALLOWED", "CommandNotAllowed", Feedback}
	SubcommandNotAllowed = &Code{2004, "COMMAND_NOT_ALLOWED", "SubcommandNotAllowed", Feedback}
	MissingCommand       = &Code{2004, "COMMAND_NOT_ALLOWED", "MissingRequiredArgument", Feedback}
	RateLimitExceeded    = &Code{2005, "RATE_LIMIT_EXCEEDED", "RateLimitExceeded", Recoverable}
	ConcurrencyExceeded  = &Code{2005, "RATE_LIMIT_EXCEEDED", "ConcurrentExecLimitExceeded", Recoverable}
	OutputSizeExceeded   = &Code{2006, "OUTPUT_SIZE_EXCEEDED", "OutputSizeLimitExceeded", Feedback}
)
