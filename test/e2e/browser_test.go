package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/inspector"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/rayctl/rayctl/test/needs"
)

// startChromium starts a Chromium without a window. It ends at the test's end with all of its processes and its profile.
func startChromium(t *testing.T) context.Context {
	t.Helper()
	program, dir := needs.Program(t, "chromium", "chromium"), t.TempDir()
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(program), chromedp.DisableGPU, chromedp.NoSandbox, // root has no sandbox; it sees only our pages
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		// Its environment is what leftBehind looks for.
		chromedp.NoInheritEnv, chromedp.Env(environment("", "HOME="+dir, "TMPDIR="+dir)...))...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithErrorf(t.Logf))
	t.Cleanup(func() {
		within, done := context.WithTimeout(ctx, limit)
		defer done()
		if err := chromedp.Cancel(within); err != nil { // asks it to end, so that it waits for its children
			t.Errorf("Chromium's end: %v", err)
		}
		cancel()
	})
	if err := chromedp.Do(ctx); err != nil { // it lives as long as this context
		t.Fatalf("Chromium does not start: %v", err)
	}
	return ctx
}

// tab is a tab of a browser, with cookies of its own. It collects what goes wrong in it.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	pending  map[network.RequestID]*network.Request
	answered map[string]bool // methods and addresses, of this document; Ray's pages ask for most of them every 4 s
	refused  []refusedRequest
	said     []string                       // on the console, and what the browser itself complains of
	dropped  int                            // requests that Chromium dropped, of which the page may say something on the console
	asked    map[network.RequestID][]string // the addresses of a request: more than one where it was redirected
	from     map[network.RequestID][]string // Sec-Fetch-Site of each, which Chromium reports before or after the address
}

// refusedRequest is a request that was answered with an error.
type refusedRequest struct {
	Method, URL string
	Status      int64
}

func newTab(t *testing.T, browser context.Context) *tab {
	t.Helper()
	b := &tab{t: t, pending: map[network.RequestID]*network.Request{}, answered: map[string]bool{}, asked: map[network.RequestID][]string{}, from: map[network.RequestID][]string{}}
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext(), chromedp.WithListener(b.see))
	t.Cleanup(cancel)
	if b.ctx = ctx; chromedp.Do(ctx) != nil { // the tab lives as long as this context
		t.Fatal("Chromium opens no tab")
	}
	b.do(chromedp.EmulateViewport(1280, 1400), chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, audits.Enable, cdp.Empty{})
		return err
	}))
	return b
}

// do runs actions.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, limit)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatalf("%v\n%s", err, b)
	}
}

// ask evaluates an expression of JavaScript in a tab.
func ask[T any](b *tab, expression string, options ...chromedp.EvaluateOption) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, limit)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, options...))
}

// unfinished is what a page still lacks of being whole: texts; images and fonts; a sign that something is being loaded, an error, a dialog.
const unfinished = `(wanted => {
	const lacks = wanted.filter(text => !document.body.innerText.includes(text))
	if (document.readyState != "complete") lacks.push("the end of loading")
	if (document.fonts.status != "loaded") lacks.push("fonts")
	for (const image of document.images) if (!image.complete || !image.naturalWidth) lacks.push(image.src)
	for (const e of document.querySelectorAll("[class*=MuiSkeleton], [class*=Progress-indeterminate], [class*=Alert-colorError], [role=dialog]"))
		lacks.push("an end of " + e.className + ": " + e.innerText)
	return lacks
})(%s)`

// untilWhole waits until the page has the texts, is whole, and nothing that it asks for is unanswered.
func (b *tab) untilWhole(wanted ...string) {
	b.t.Helper()
	list := make([]string, len(wanted))
	for i, w := range wanted {
		list[i] = fmt.Sprintf("%q", w)
	}
	var lacks []string
	var err error
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		// An error is that of a page which is being left.
		if lacks, err = ask[[]string](b, fmt.Sprintf(unfinished, "["+strings.Join(list, ",")+"]")); err == nil && len(lacks) == 0 && b.quiet() {
			return
		}
	}
	b.t.Fatalf("the page lacks %q, %v\n%s", lacks, err, b)
}

// sites are the sites that requests for an address came from, by Sec-Fetch-Site.
func (b *tab) sites(address string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []string
	for id, asked := range b.asked {
		for i, from := range b.from[id] {
			if i < len(asked) && asked[i] == address {
				all = append(all, from)
			}
		}
	}
	return all
}

// quiet reports whether everything that the page has asked for was answered once.
func (b *tab) quiet() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.pending {
		if !b.answered[r.Method+" "+r.URL] {
			return false
		}
	}
	return true
}

// String is what a tab shows, for messages.
func (b *tab) String() string {
	ctx, cancel := context.WithTimeout(b.ctx, 10*time.Second) // of a tab that hangs
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("location.href + '\\n' + document.body.innerText"))
	b.mu.Lock()
	defer b.mu.Unlock()
	s := fmt.Sprintf("the tab, %v: %s\nrefused: %v\nsaid: %q\npending:", err, text, b.refused, b.said)
	for _, r := range b.pending {
		s += " " + r.URL
	}
	return s
}

// taken returns what went wrong since the last call.
func (b *tab) taken() (refused []refusedRequest, said []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	refused, said, b.refused, b.said = b.refused, b.said, nil, nil
	return refused, said
}

// issues are the complaints of the browser that concern a proxy. Others are about Ray's forms and their speed.
var issues = []audits.InspectorIssueCode{
	audits.InspectorIssueCodeCookieIssue, audits.InspectorIssueCodeMixedContentIssue, audits.InspectorIssueCodeBlockedByResponseIssue,
	audits.InspectorIssueCodeContentSecurityPolicyIssue, audits.InspectorIssueCodeCorsIssue, audits.InspectorIssueCodeStylesheetLoadingIssue,
}

// networkChanged is Chromium's error for requests that it drops because an interface of the machine came or went, as those of testbeds beside this test do;
// it has no option against this. Ray's pages report a dropped request with one error on the console and ask again. A page that misses one is not whole.
const networkChanged = "net::ERR_NETWORK_CHANGED"

// see is called for each event, in their order.
func (b *tab) see(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	say := func(format string, args ...any) { b.said = append(b.said, fmt.Sprintf(format, args...)) }
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if e.Type == network.ResourceTypeDocument {
			clear(b.answered)
			b.dropped = 0
		}
		b.pending[e.RequestID] = e.Request
		b.asked[e.RequestID] = append(b.asked[e.RequestID], e.Request.URL)
	case *network.EventRequestWillBeSentExtraInfo:
		b.from[e.RequestID] = append(b.from[e.RequestID], fmt.Sprint(e.Headers["Sec-Fetch-Site"]))
	case *network.EventResponseReceived:
		if r := b.pending[e.RequestID]; r != nil && e.Response.Status >= 400 {
			b.refused = append(b.refused, refusedRequest{r.Method, r.URL, e.Response.Status})
		}
	case *network.EventLoadingFinished:
		if r := b.pending[e.RequestID]; r != nil {
			b.answered[r.Method+" "+r.URL] = true
		}
		delete(b.pending, e.RequestID)
	case *network.EventLoadingFailed:
		switch r := b.pending[e.RequestID]; {
		case r == nil || e.Canceled && e.BlockedReason == "":
		case e.ErrorText == networkChanged:
			b.t.Logf("Chromium dropped %s %s: %s", r.Method, r.URL, e.ErrorText)
			b.dropped++
		default:
			say("%s %s: %s %s", r.Method, r.URL, e.ErrorText, e.BlockedReason)
		}
		delete(b.pending, e.RequestID)
	case *network.EventWebSocketFrameError:
		say("websocket: %s", e.ErrorMessage)
	case *inspector.EventTargetCrashed:
		say("the tab crashed")
	case *runtime.EventExceptionThrown:
		say("exception: %s %s", e.ExceptionDetails.Text, described(e.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		switch {
		case e.Type != runtime.ConsoleAPICalledTypeError && e.Type != runtime.ConsoleAPICalledTypeAssert:
		case b.dropped > 0:
			b.t.Logf("after a dropped request: console: %s", described(e.Args...))
			b.dropped--
		default:
			say("console: %s", described(e.Args...))
		}
	case *log.EventEntryAdded: // those of requests are counted above
		if e.Entry.Level == log.EntryLevelError && e.Entry.NetworkRequestID == "" {
			say("log: %s %s", e.Entry.Text, e.Entry.URL)
		}
	case *audits.EventIssueAdded:
		if slices.Contains(issues, e.Issue.Code) {
			say("issue: %s %+v", e.Issue.Code, e.Issue.Details)
		}
	}
}

func described(values ...*runtime.RemoteObject) string {
	var text []string
	for _, v := range values {
		if v != nil {
			text = append(text, string(v.Value)+v.Description)
		}
	}
	return strings.Join(text, " ")
}
