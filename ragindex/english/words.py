"""English word lists of the rules. A word that is in no list is taken for a noun or an adjective."""

MONTH_NAMES = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# ---------------------------------------------------------------- words that are not names

ARTICLES = _set("a an the")
DETERMINERS = ARTICLES | _set(
    "this that these those some any each every either neither no another all both many several few most such "
    "various certain numerous more other what whatever"
)
SUBJECT_PRONOUNS = _set("he she it they")
POSSESSIVE_PRONOUNS = _set("his her its their")
MALE_OR_FEMALE = _set("he him his himself she her hers herself")
PLURAL = _set("they them their theirs themselves")
PRONOUNS = (
    SUBJECT_PRONOUNS
    | POSSESSIVE_PRONOUNS
    | MALE_OR_FEMALE
    | PLURAL
    | _set(
        "i me my mine we us our ours you your yours itself one who whom someone everyone something nothing there here"
    )
)
POSSESSIVES = POSSESSIVE_PRONOUNS | _set("my our your whose")

PREPOSITIONS = _set(
    "of in on at by for from to with within without into onto upon over under above below about around across "
    "along against among amongst amid between beside besides beyond near next inside outside through throughout "
    "towards toward via per behind beneath off up down out as like unlike until till during despite including "
    "featuring regarding concerning following except alongside opposite versus plus aboard"
)
SUBORDINATORS = _set("when whenever while whilst because although though if unless whereas since after before once so")
RELATIVES = _set("who which that where whom")
CONJUNCTIONS = _set("and or but nor &")
ADVERBS = _set(
    "not also often still now then later soon again already always never once twice first last only just even "
    "very too well best better most more much less least further however thus hence therefore moreover meanwhile "
    "instead together alone abroad away back there here today yet ever almost nearly quite rather sometimes "
    "usually perhaps indeed else both respectively approximately a.k.a. aka monthly weekly daily annually yearly "
    "thereafter afterwards otherwise nevertheless nonetheless furthermore additionally initially formerly "
    "currently"
)
DEGREES = _set("first last only best most least more less very then once even well much")
"""Adverbs that stand before nouns too."""

ENGLISH_FUNCTION_WORDS = (
    DETERMINERS
    | PRONOUNS
    | PREPOSITIONS
    | SUBORDINATORS
    | RELATIVES
    | CONJUNCTIONS
    | ADVERBS
    | _set("how why whether than yes")
)

# ---------------------------------------------------------------- verbs

COPULAS = _set("is are was were be been being am became become becomes remains remained")
NEGATING = _set("never rarely seldom hardly barely scarcely almost nearly")
"""Adverbs without which a verb would say the opposite."""

MODALS = _set("can could will would shall should may might must")
AUXILIARIES = COPULAS | MODALS | _set("has have had having do does did")
PAST_VERBS = _set(
    "began begun bore born bought broke broken brought built came caught chose chosen cut dealt did drew drawn "
    "drank drove driven ate eaten fed fell fallen fled flew flown fought found forgot gave given gone got grew "
    "grown heard held hid hidden hit hung hurt kept knew known laid lay lain led left lent let lit lost made "
    "meant met overcame overthrew paid proven put quit ran read rode ridden rang rose risen said sang sung sank "
    "sunk sat saw seen sent set sewn shook shaken shot showed shown shut slain slept sold sought spent split "
    "spoke spoken spread sprang stole stolen stood struck stuck swam swore sworn swept taken taught thought threw "
    "thrown told took tore torn understood underwent undergone undertook went withdrew withdrawn woke won wore "
    "worn wound written wrote drunk beat beaten bound cast cost dug felt foresaw leapt learnt rebuilt retold slid "
    "smelt spun stung strove swung upheld wept"
)
PRESENT_VERBS = _set(
    "activates acts adapts addresses adds affects aims airs allows alludes appears arises asks assists attends "
    "attracts awards bears begins belongs binds blocks borders bounds breaks brings broadcasts builds calls "
    "captures carries causes celebrates centers centres chronicles claims combines comes competes comprises "
    "concerns concludes connects consists constitutes contains continues contributes controls covers creates "
    "crosses deals defeats defines delivers depicts derives describes deserves designs develops dies directs "
    "discovers discusses divides drains draws earns elects employs enables encodes encourages ends enters "
    "establishes examines exists explains explores expresses extends faces falls feeds feels fights finds flows "
    "focuses follows forces forms founds functions gains gets gives goes governs grows hangs happens heads helps holds "
    "hosts houses identifies includes increases indicates induces inhabits inherits inhibits introduces "
    "investigates involves joins keeps kills knows lacks lasts launches leads learns leaves lies links lists "
    "lives looks loses maintains makes manages marks marries means mediates meets moves narrates needs neighbors "
    "neighbours occupies occurs offers opens operates organises organizes originates overlooks oversees owns "
    "passes performs plays portrays possesses precedes presents produces promotes provides publishes reaches "
    "receives recounts refers reflects regulates relates releases relies replaces represents represses requires "
    "resembles resides returns reveals rises runs says seeks seems sees sells sends separates serves sets shares "
    "shows sings sits spans speaks specialises specializes sponsors stands stars starts stays stimulates stops "
    "stretches studies supplies supports suppresses surrounds takes targets teaches tells tends traces trains "
    "travels treats tries turns uses visits wants wins works writes"
)
PRESENT_PLURAL_VERBS = _set(
    "include consist contain live play provide form represent belong occur exist appear offer serve depend come "
    "make become remain produce refer share use meet cause require receive vary tend"
)
NOT_PAST = _set(
    "hundred united need seed speed breed red bed sacred naked wicked weed feed deed greed creed indeed shed sled "
    "bred kindred embed exceed proceed succeed agreed-upon limited unlimited so-called aged talented"
)
NOT_PARTICIPLES = _set(
    "king ring spring string wing thing something anything nothing everything evening morning building beijing "
    "during sibling ceiling wedding being sterling viking"
)

# ---------------------------------------------------------------- names

NAME_LINKS = _set("of de la le les du des del della di da dos das van von der den zu y e al el bin ibn ben do und au")
NAME_ARTICLES = _set("the la le les las los de der den")
HONORIFICS = _set(
    "Mr. Mrs. Ms. Dr. Sir Dame Lady Lord Prof. Professor Rev. Reverend Hon. Capt. Lt. Sgt. Col. Gen. Gov. Sen. Rep."
)
ABBREVIATIONS = _set(
    "mr mrs ms dr st ste jr sr prof gen col lt maj sgt capt cmdr adm gov sen rep rev hon fr no nos vol vols ed "
    "eds op inc ltd co corp bros cf ca c approx est mt ft v vs al fig p pp b d r ph dept univ assn ave blvd etc "
    "e.g i.e a.k.a jan feb mar apr jun jul aug sep sept oct nov dec"
)
OWNERS_IN_NAMES = _set("Children Women Men People King Queen Prince Boys Girls Valentine Alzheimer Parkinson Mother")
"""Whose "'s" stands within a name: Women's World Cup."""

BODIES = _set(
    "Academy Act Agency Association Award Awards Board Bureau Campaign Center Centre Chamber College Commission "
    "Committee Company Conference Congress Convention Corporation Council Department Directorate Faculty "
    "Federation Foundation Fund Handbook Institute Institution Journal League Library Minister Ministry Museum "
    "Office Order Organisation Organization Parliament Party Prize Programme Program Railroad Railway School "
    "Secretariat Secretary Society Treaty Union University"
)
NOT_ADVERBS = _set(
    "family assembly supply reply fly ally rally bully anomaly monopoly early belly jelly lily bodily elderly "
    "friendly costly lovely deadly likely unlikely scholarly homily melancholy butterfly"
)
ONLY_PARTICIPLES = _set(
    "known born written taken given shown seen spoken drawn driven grown thrown chosen broken stolen worn torn "
    "fallen forgotten hidden eaten beaten begun sung based located situated named called headquartered entitled "
    "titled composed dedicated"
)
"""Participles that are hardly ever a finite verb."""

PLACES = _set("in at near from to of between through across around outside on")
LIVING = _set(
    "living working serving starring playing running competing operating consisting ranging belonging dating "
    "leading acting appearing resulting stemming located situated"
)
"""Participles that a preposition follows as well."""

NUMBER_WORDS = _set("one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty hundred")
NUMERALS = _set("I II III IV V VI VII VIII IX X XI XII XIII XIV XV XVI XVII XVIII XIX XX")

COMMON_ENDINGS = (
    "ly",
    "ing",
    "tion",
    "sion",
    "ment",
    "ness",
    "ity",
    "ism",
    "ance",
    "ence",
    "ship",
    "ed",
    "ists",
    "ers",
)
"""How a word ends that opens a sentence with a capital and is no name."""

ADJECTIVE_ENDINGS = ("al", "ive", "ic", "ous", "ary", "ful", "less", "able", "ible", "ern", "ish", "est")
DEMONYM_ENDINGS = ("ican", "ian", "ean", "ish", "ese", "eli", "aqi", "ani")
DEMONYMS = _set("French German Dutch Greek Swiss Welsh Thai Czech Roman Jewish African Asian Arab Catholic Protestant")

# ---------------------------------------------------------------- nouns that classify a title

PERSON_NOUNS = _set(
    "abbot academic activist actor actress admiral adviser advisor ambassador anthropologist archaeologist "
    "archbishop architect aristocrat artist astronaut astronomer athlete attorney author baritone baron "
    "baseballer bassist biochemist biologist bishop botanist boxer broadcaster businessman businesswoman "
    "businessperson cardinal cartoonist cellist celebrity champion character chef chemist choreographer "
    "cinematographer clergyman coach colonel columnist comedian commander composer conductor congressman "
    "correspondent cricketer critic cyclist dancer daughter designer dictator diplomat director drummer duke "
    "economist editor educator emperor empress engineer entertainer entrepreneur essayist executive explorer "
    "father figure filmmaker financier footballer general geologist golfer goalkeeper governor guitarist gymnast "
    "historian host husband illustrator industrialist inventor journalist judge king knight lawyer lecturer "
    "legislator librarian lieutenant lyricist magician manager man marquis mathematician mayor member minister "
    "missionary model monk mother musician naturalist nobleman novelist nun nurse officer painter philanthropist "
    "philologist philosopher photographer physician physicist pianist pilot playwright player poet politician "
    "pope preacher presenter president priest prince princess printmaker producer professor programmer "
    "psychiatrist psychologist publisher queen rabbi racer rapper reporter researcher runner saint saxophonist "
    "scholar scientist sculptor screenwriter senator sheriff sister skater skier socialite sociologist soldier "
    "son songwriter soprano spy statesman striker sultan swimmer teacher tenor theologian translator trumpeter "
    "vocalist violinist wife winemaker woman wrestler writer zoologist singer brother midfielder defender forward "
    "quarterback pitcher earl count countess duchess jurist solicitor barrister surgeon"
)
GROUP_NOUNS = _set(
    "band group team duo trio quartet quintet family tribe people company couple brothers sisters orchestra club "
    "party dynasty ensemble police army force clan organisation organization gang"
)
THING_NOUNS = _set(
    "agency airline airport album anthology area army association award bank battle bay board book borough brand "
    "bridge building campaign canal castle cathedral cemetery centre center ceremony chain channel church city "
    "club college commission committee community company competition conference conflict constituency corporation "
    "council country county court department desert disease district division drama drug edition election empire "
    "episode event exhibition facility federation festival film firm forest foundation franchise game genus group "
    "hall highway hospital hotel house institute institution island journal kingdom label lake language law "
    "league library line magazine mall manufacturer media monument mosque motorway mountain movement movie "
    "municipality museum musical network newspaper novel office opera organisation organization palace park party "
    "peninsula period plant play port programme program project province public publication publisher railway "
    "range region republic restaurant river road route school season sea series service settlement ship show "
    "single society software song sport square stadium state station story strait street studio suburb system "
    "team temple territory theatre theater tournament tower town treaty tributary tunnel university valley "
    "vehicle venue village volcano war website work"
)
"""Nouns that a definite description may have for the title even where no sentence defines it: "the river"."""

JUDGING = _set(
    "said believed thought known unknown clear unclear evident possible impossible likely unlikely necessary important"
    " difficult easy hard common estimated reported alleged rumored rumoured claimed assumed expected suggested argued"
    " noted hoped true certain uncertain decided agreed announced customary"
)
"""What "it is … that" says of no thing."""

COMPANIES = _set("industries inc ltd corporation corp company gmbh plc llc")

# ---------------------------------------------------------------- numbers

BESIDE_NUMBERS = _set(
    "and or to of the a an in on at by about around circa ca over nearly almost than century early mid late"
)
UNITS = (
    "%|percent|per cent|million|billion|trillion|thousand|hundred|km2|km²|sq mi|square miles|square kilometers"
    "|square kilometres|km|kilometers|kilometres|kilometer|kilometre|miles|mile|mi|meters|metres|metre|meter|m|feet"
    "|foot|ft|inches|cm|mm|acres|hectares|ha|kg|tons|tonnes|lb|pounds|mph|km/h|MHz|GHz|kHz|kW|MW|MB|GB|°C|°F|years|months"
    "|weeks|days|hours|minutes|seconds|dollars|euros"
)
