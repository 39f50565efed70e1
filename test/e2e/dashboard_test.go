package e2e

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"image"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
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

// TestBrowserDashboard walks through Ray's dashboard in a real Chromium that was led there by a page of another site, as JupyterLab's: each page is whole.
func TestBrowserDashboard(t *testing.T) {
	u := sharedCluster(t)
	browser := startChromium(t)
	finish := filepath.Join(u.dir, "finish")
	u.write("job.py", browsedJob)
	u.write("app/app.py", browsedApplication)
	u.write("serve.yaml", "applications:\n- {name: greeting, import_path: 'app:app', route_prefix: /, runtime_env: {working_dir: app}}\n")
	u.want(0, "serve", "apply", "-f", "serve.yaml", "shared")
	defer u.want(0, "serve", "delete", "shared")
	defer u.write("finish", "") // also where it fails: others use the cluster
	job := u.start(false, "submit", "shared", "--submission-id", "browsed", "--", "python", "job.py", finish)
	job.until("the actor says 42", 1)
	d := openDashboard(u)

	b := newTab(t, browser)
	d.follow(b, "localhost", d.entry(), "cross-site")
	d.whole(b, "overview", "Cluster utilization", "Recent jobs", "browsed", "Serve Deployments", "Greeter", "Node count", "Events")
	for _, page := range browsedPages {
		b.do(chromedp.Click(chromedp.Search(page.link)))
		d.whole(b, page.name, page.wanted...)
	}
	d.socket(b, "/api/jobs/browsed/logs/tail")

	origin := d.origin(b)
	entry := d.entry()
	d.follow(b, "localhost", origin+"/", "cross-site") // a bookmark there
	c := newTab(t, browser)
	d.follow(c, "localhost", entry+"/", "cross-site")
	d.follow(c, "localhost", entry, "cross-site") // once more
	d.follow(newTab(t, browser), "127.0.0.1", d.entry(), "same-site")

	u.write("finish", "")
	if code := job.code(); code != 0 {
		t.Errorf("the job: exit code %d, %s", code, job)
	}
	d.screen.cmd.Process.Signal(syscall.SIGINT)
	if code := d.screen.code(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

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

const (
	browsedJob = `import os, sys, time, ray
ray.init()
@ray.remote(num_cpus=0)
class Browsed:
    def says(self): return 6 * 7
browsed = Browsed.options(name="by-its-name").remote()
print("the actor says", ray.get(browsed.says.remote()), flush=True)
while not os.path.exists(sys.argv[1]): time.sleep(0.1)
`
	browsedApplication = `from ray import serve
@serve.deployment(ray_actor_options={"num_cpus": 0})
class Greeter:
    def __call__(self, request): return "hello"
app = Greeter.bind()
`
)

func openDashboard(u *user) *dashboard {
	u.t.Helper()
	vars := decode[map[string]string](u.t, u.want(0, "env", "shared", "-o", "json").out)
	token, err := os.ReadFile(vars["RAY_AUTH_TOKEN_PATH"])
	if err != nil {
		u.t.Fatal(err)
	}
	d := &dashboard{u: u, screen: u.start(false, "dashboard", "shared"), direct: vars["RAY_API_SERVER_ADDRESS"], token: strings.TrimSpace(string(token))}
	d.lab = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `<!doctype html><link rel="icon" href="data:,"><a href="%s">the dashboard</a>`, html.EscapeString(r.FormValue("to")))
	}))
	u.t.Cleanup(d.lab.Close)
	return d
}

// dashboard is a `rayctl dashboard`, and a page of another site with a link to it.
type dashboard struct {
	u      *user
	screen *screen
	direct string // the dashboard itself
	token  string
	lab    *httptest.Server
	used   int // entries
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

// networkChanged is Chromium's error for requests that it drops because an interface of the machine came or went, as those of testbeds beside this test do;
// it has no option against this. Ray's pages report a dropped request with one error on the console and ask again. A page that misses one is not whole.
const networkChanged = "net::ERR_NETWORK_CHANGED"

func described(values ...*runtime.RemoteObject) string {
	var text []string
	for _, v := range values {
		if v != nil {
			text = append(text, string(v.Value)+v.Description)
		}
	}
	return strings.Join(text, " ")
}

// issues are the complaints of the browser that concern a proxy. Others are about Ray's forms and their speed.
var issues = []audits.InspectorIssueCode{
	audits.InspectorIssueCodeCookieIssue, audits.InspectorIssueCodeMixedContentIssue, audits.InspectorIssueCodeBlockedByResponseIssue,
	audits.InspectorIssueCodeContentSecurityPolicyIssue, audits.InspectorIssueCodeCorsIssue, audits.InspectorIssueCodeStylesheetLoadingIssue,
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

// follow follows a link to an address from a page at another port of a name of this machine.
func (d *dashboard) follow(b *tab, name, address, site string) {
	d.u.t.Helper()
	_, port, _ := strings.Cut(strings.TrimPrefix(d.lab.URL, "http://"), ":")
	b.do(chromedp.Navigate("http://"+name+":"+port+"/lab?to="+url.QueryEscape(address)), chromedp.Click(chromedp.CSS("a")))
	b.untilWhole("Cluster utilization")
	d.unrefused(b, "the link of "+name)
	for end := time.Now().Add(limit); !slices.Contains(b.sites(address), site); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			d.u.t.Fatalf("the link to %s was followed as %q", address, b.sites(address))
		}
	}
}

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

// unrefused expects nothing on the console, and no error from the proxy: only what Ray itself answers to the same request.
func (d *dashboard) unrefused(b *tab, name string) {
	t := d.u.t
	t.Helper()
	refused, said := b.taken()
	for _, text := range said {
		t.Errorf("%s: %s", name, text)
	}
	origin := d.origin(b)
	for _, r := range refused {
		path, ours := strings.CutPrefix(r.URL, origin)
		if !ours || d.ask(r.Method, path) != r.Status {
			t.Errorf("%s: %s %s: %d, which is not Ray's own answer", name, r.Method, r.URL, r.Status)
			continue
		}
		t.Logf("%s: Ray's own answer to %s %s is %d", name, r.Method, path, r.Status)
	}
}

// taken returns what went wrong since the last call.
func (b *tab) taken() (refused []refusedRequest, said []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	refused, said, b.refused, b.said = b.refused, b.said, nil, nil
	return refused, said
}

// origin is where the tab sees the dashboard: at the proxy's own name.
func (d *dashboard) origin(b *tab) string {
	d.u.t.Helper()
	origin, err := ask[string](b, "location.origin")
	if err != nil || !strings.Contains(origin, ".localhost:") {
		d.u.t.Fatalf("the tab is at %s, %v", origin, err)
	}
	return origin
}

// ask asks Ray itself.
func (d *dashboard) ask(method, path string) (status int64) {
	d.u.t.Helper()
	r, err := http.NewRequest(method, d.direct+path, nil)
	if err != nil {
		d.u.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+d.token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		d.u.t.Fatal(err)
	}
	resp.Body.Close()
	return int64(resp.StatusCode)
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

// entry is the entry that was printed last.
func (d *dashboard) entry() string {
	d.u.t.Helper()
	d.used++
	d.screen.until("/rayctl/", d.used)
	all := entryURL.FindAllString(d.screen.String(), -1)
	return all[len(all)-1]
}

var entryURL = regexp.MustCompile(`http://127\.0\.0\.1:\d+/rayctl/\w+`)

// whole waits until a page is whole, and makes a screenshot.
func (d *dashboard) whole(b *tab, name string, wanted ...string) {
	t := d.u.t
	t.Helper()
	b.untilWhole(wanted...)
	d.unrefused(b, name)
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	dir := os.Getenv("RAYCTL_TEST_SCREENSHOTS") // for people to look at
	if dir == "" {
		dir = t.TempDir()
	}
	path := filepath.Join(dir, name+".png")
	if err := os.WriteFile(path, picture, 0o644); err != nil {
		t.Fatal(err)
	}
	if colours, covered, err := drawn(picture); err != nil || colours < 50 || covered < 0.01 {
		t.Errorf("%s is blank: %d colours, %f covered, %v", path, colours, covered, err)
	}
}

// drawn counts the colours of a screenshot, and which part is not of the commonest one, below the menu.
func drawn(data []byte) (colours int, covered float64, err error) {
	picture, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return 0, 0, err
	}
	const menu = 60
	area := image.Rect(picture.Bounds().Min.X, menu, picture.Bounds().Max.X, picture.Bounds().Max.Y)
	counts, most := map[[4]uint32]int{}, 0
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			r, g, b, a := picture.At(x, y).RGBA()
			counts[[4]uint32{r, g, b, a}]++
			most = max(most, counts[[4]uint32{r, g, b, a}])
		}
	}
	return len(counts), 1 - float64(most)/float64(area.Dx()*area.Dy()), nil
}

// browsedPages are the pages of Ray's dashboard, each with what leads there from the one before and what it shows of the cluster.
var browsedPages = []struct {
	name, link string
	wanted     []string
}{
	{"jobs", `nav a[href="#/jobs"]`, []string{"Fetched jobs", "Job List", "browsed", "python job.py", "RUNNING"}},
	{"job", `//tr[td="browsed"]//a[starts-with(@href, "#/jobs/")]`, []string{"Entrypoint", "python job.py", "Ray Core Overview", "the actor says 42", "Task Table"}},
	{"nodes", `nav a[href="#/cluster"]`, []string{"Node summary fetched", "Node List", "TOTAL\nx 2", "ALIVE\nx 2", "(Head)"}},
	{"cluster", `a[href="#/cluster/info"]`, []string{"Cluster Info", "2.60.0"}},
	{"actors", `nav a[href="#/actors"]`, []string{"Browsed", "by-its-name", "ALIVE"}},
	{"actor", `//tr[td="by-its-name"]//a[starts-with(@href, "#/actors/")]`, []string{"Class Name", "by-its-name", "STDERR"}},
	{"node", `a[href^="#/cluster/nodes/"]`, []string{"Node details fetched", "Node Detail", "Hostname", "RAYLET", "Logs"}},
	{"logs", `nav a[href="#/logs"]`, []string{"Select a node to view logs", "Node ID: "}},
	{"files", `a[href^="#/logs?nodeId="]`, []string{"raylet.out"}},
	{"file", `//a[.="raylet.out"]`, []string{"(raylet)"}},
	{"serve", `nav a[href="#/serve"]`, []string{"Controller status", "HEALTHY", "Applications / Deployments", "greeting", "Greeter", "RUNNING", "Controller starting"}},
	{"application", `a[href="#/serve/applications/greeting"]`, []string{"Import path", "app:app", "Greeter", "HEALTHY"}},
	{"metrics", `nav a[href="#/metrics"]`, []string{"Set up Prometheus and Grafana"}},
}

// socket opens a websocket, which Ray's API has and its pages do not use. Ray 2.60 sends nothing through one that may be compressed, as a browser's.
func (d *dashboard) socket(b *tab, path string) {
	d.u.t.Helper()
	if opened, err := ask[bool](b, fmt.Sprintf(`new Promise(resolve => {
		const socket = new WebSocket("ws://" + location.host + %q)
		socket.onopen = () => { socket.close(); resolve(true) }
		socket.onerror = () => resolve(false)
	})`, path), chromedp.EvalAwaitPromise); err != nil || !opened {
		d.u.t.Errorf("the websocket does not open: %v", err)
	}
}

// TestDashboard: the dashboard opens for whoever has the URL.
func TestDashboard(t *testing.T) {
	u := sharedCluster(t)
	s := u.start(false, "dashboard", "shared")
	s.until("until Ctrl-C", 1)
	entry := ""
	for _, line := range strings.Split(s.String(), "\n") {
		if strings.HasPrefix(line, "http://") {
			entry = line
		}
	}
	get := func(c *http.Client, url string) (int, string) {
		resp, err := c.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	plain, _, _ := strings.Cut(entry, "/rayctl/")
	if code, _ := get(http.DefaultClient, plain+"/api/version"); code != http.StatusUnauthorized {
		t.Errorf("without the secret: %d", code)
	}
	browser, base := enterDashboard(t, entry)
	if code, body := get(browser, base); code != http.StatusOK || !strings.Contains(body, "html") {
		t.Errorf("the page: %d %.200s", code, body)
	}
	if code, _ := get(browser, plain+"/api/version"); code != http.StatusUnauthorized {
		t.Errorf("what every port of 127.0.0.1 gets is enough: %d", code)
	}
	if _, page := get(http.DefaultClient, entry); strings.Contains(page, "/rayctl/") || !strings.Contains(page, base+"/") {
		t.Errorf("the entry leads in twice: %s", page)
	}
	s.until("/rayctl/", 2) // another entry
	if code, body := get(browser, base+"/api/version"); code != http.StatusOK || !strings.Contains(body, "2.60.0") {
		t.Errorf("the API: %d %s", code, body)
	}
	s.cmd.Process.Signal(syscall.SIGINT)
	if code := s.code(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
